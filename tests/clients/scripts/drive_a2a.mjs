// The client of @a2a-js/sdk.

import { SendMessageRequest, TaskState } from "@a2a-js/sdk"
import { ClientFactory } from "@a2a-js/sdk/client"
import { HELLO, LONG_TEXT, PLACE, TWO, WEATHER, answerTo, drive, endless, expect, hundred, killWorker, weather } from "./rows.mjs"

const root = process.env.OPENAI_BASE_URL.replace("/openai/v1", "")
const connected = team => new ClientFactory().createFromUrl(`${root}/a2a/${team}/.well-known/agent-card.json`, "")
const tools = [{ name: "weather", description: "The weather.", parameters: { type: "object", properties: { city: { type: "string" } } } }]
const said = (part, ids = {}) => SendMessageRequest.fromJSON({
  message: { messageId: crypto.randomUUID(), role: "ROLE_USER", parts: [typeof part === "string" ? { text: part } : { data: part }], ...ids },
})

class Read {
  artifacts = new Map()
  pieces = 0
  replaced = 0
  add({ payload: { $case, value } }) {
    if ($case === "task") [this.id, this.context] = [value.id, value.contextId]
    if ($case === "statusUpdate") {
      this.state = value.status.state
      this.calls = (value.status.message?.parts ?? []).map(({ content }) => content.value)
    }
    if ($case === "artifactUpdate") {
      const { artifactId, name, parts } = value.artifact
      const before = value.append ? this.artifacts.get(artifactId).text : ""
      this.pieces += 1
      if (this.artifacts.get(artifactId)?.text && !value.append) this.replaced += 1
      this.artifacts.set(artifactId, { name, parts, text: before + parts.map(({ content }) => content.value).join("") })
    }
  }
  async all(events) {
    for await (const event of events) this.add(event)
    return this
  }
  get texts() { return [...this.artifacts.values()].map(({ text }) => text) }
}

// Give the task two webhooks, and remove one. Return the address of the other.
async function namedWebhook(client, taskId) {
  const hook = process.env.HOOK + crypto.randomUUID()
  for (const id of ["kept", "removed"]) {
    const authentication = { scheme: "Bearer", credentials: id }
    await client.createTaskPushNotificationConfig({ tenant: "", id, taskId, url: hook, token: "", authentication })
  }
  await hears(hook, ["TASK_STATE_INPUT_REQUIRED"])
  await client.deleteTaskPushNotificationConfig({ tenant: "", taskId, id: "removed" })
  const { configs } = await client.listTaskPushNotificationConfig({ tenant: "", taskId, pageSize: 0, pageToken: "" })
  const kept = await client.getTaskPushNotificationConfig({ tenant: "", taskId, id: "kept" })
  expect(configs, [kept])
  return hook
}

// Wait until the webhook has heard of these states with the credentials `kept`.
async function hears(hook, states) {
  let heard
  for (let attempt = 0; attempt < 600; attempt++) {
    const posted = await (await fetch(hook)).json()
    heard = posted.filter(([bearer]) => bearer === "Bearer kept").map(([, body]) => body.statusUpdate.status.state)
    if (String([...new Set(heard)]) === String(states)) return
    await new Promise(resolve => setTimeout(resolve, 100))
  }
  expect(heard, states)
}

async function interrupt(client) {
  const read = new Read()
  let later
  for await (const event of client.sendMessageStream(said("an endless one"))) {
    read.add(event)
    if (read.pieces === 2 && !later) {
      later = new Read().all(client.sendMessageStream(said("two", { taskId: read.id, metadata: { ifBusy: "interrupt" } })))
    }
  }
  const answer = (await later).texts.at(-1)
  expect([read.texts.at(-1) === answer, answer.endsWith(": two"), read.state], [true, true, TaskState.TASK_STATE_COMPLETED])
}

await drive({
  async plain() {
    const client = await connected("desk")
    expect((await new Read().all(client.sendMessageStream(said("Hello")))).texts, [HELLO])
  },
  async stream() {
    const client = await connected("line")
    const read = await new Read().all(client.sendMessageStream(said("a long one")))
    expect([[...read.artifacts.values()].map(({ name }) => name), read.texts[0], read.pieces > 6], [["first", "second"], LONG_TEXT, true])
  },
  async "structured output"() {
    const read = await new Read().all((await connected("typed")).sendMessageStream(said("warm, as JSON")))
    expect([...read.artifacts.values()].flatMap(({ parts }) => parts).flatMap(({ content }) => (content.$case === "data" ? [content.value] : [])), [PLACE])
  },
  async failure() {
    const client = await connected("desk")
    const failed = await new Read().all(client.sendMessageStream(said("fail")))
    expect([failed.state, failed.calls.join("").includes("the model refuses")], [TaskState.TASK_STATE_FAILED, true])
    const again = await new Read().all(client.sendMessageStream(said("again", { contextId: failed.context })))
    expect(again.texts.at(-1).endsWith(": again"), true)
  },
  async "killed worker"() {
    const client = await connected("desk")
    const read = new Read()
    for await (const event of client.sendMessageStream(said("a long one"))) {
      read.add(event)
      if (read.pieces === 1) await killWorker()
    }
    expect([read.texts, read.replaced > 0, read.state], [[LONG_TEXT], true, TaskState.TASK_STATE_COMPLETED])
  },
  async "a hundred runs"() {
    const client = await connected("desk")
    await Promise.all(hundred("@a2a-js/sdk").map(async text => {
      const message = said(text)
      const read = await new Read().all(client.sendMessageStream(message)).catch(async error => {
        if (!/503|repeat the request/.test(error.message)) throw error // else the line of calls is full: sent again, it counts once
        await new Promise(resolve => setTimeout(resolve, 5000))
        return new Read().all(client.sendMessageStream(message))
      })
      expect(read.texts, [answerTo(text)])
    }))
  },
  async resume() {
    const client = await connected("desk")
    const read = new Read()
    for await (const event of client.sendMessageStream(said("a long slow one"))) {
      read.add(event)
      if (read.pieces === 5) break
    }
    await read.all((await connected("desk")).resubscribeTask({ tenant: "", id: read.id }))
    expect([read.texts, read.state], [[LONG_TEXT], TaskState.TASK_STATE_COMPLETED])
  },
  async tools() {
    const client = await connected("desk")
    const asked = await new Read().all(client.sendMessageStream(said("the weather?", { metadata: { clientTools: tools } })))
    const [{ callId, args }] = asked.calls
    const done = await new Read().all(client.sendMessageStream(said({ callId, result: weather(args) }, { taskId: asked.id })))
    expect(done.texts, [WEATHER])
  },
  async history() {
    const client = await connected("desk")
    const one = await new Read().all(client.sendMessageStream(said("one")))
    const two = await new Read().all(client.sendMessageStream(said("two", { contextId: one.context })))
    expect(two.texts, [TWO])
  },
  async approval() {
    for (const [team, approved] of [["guarded", true], ["guarded", false], ["chief", true]]) {
      const client = await connected(team)
      const asked = await new Read().all(client.sendMessageStream(said("add")))
      const hook = team === "guarded" && (await namedWebhook(client, asked.id)) // a sub-task waits, not its task
      const decision = { callId: asked.calls[0].callId, approved }
      const done = await new Read().all(client.sendMessageStream(said(decision, { taskId: asked.id })))
      expect(done.texts.join().includes("The result is 3."), approved)
      if (hook) await hears(hook, ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"])
    }
  },
  async cancel() {
    const client = await connected("desk")
    await interrupt(client)
    const read = new Read()
    for await (const event of client.sendMessageStream(said(endless("@a2a-js/sdk")))) {
      read.add(event)
      if (read.pieces === 2) await client.cancelTask({ tenant: "", id: read.id })
    }
    expect(read.state, TaskState.TASK_STATE_CANCELED)
  },
})
