// HttpAgent of AG-UI, of the release that AG_UI_CLIENT names. If that is CopilotKit's core, its runtime runs here, and
// its own HttpAgents are the clients of the gateway.

import { createServer } from "node:http"
import { createRequire } from "node:module"

import { BOTH, HELLO, LONG_TEXT, PLACE, TWO, answerTo, drive, endless, expect, hundred, killWorker, stopTask, weather } from "./rows.mjs"

const root = process.env.OPENAI_BASE_URL.replace("/openai/v1", "")
const { HttpAgent, ProxiedCopilotRuntimeAgent: Proxied } = await import(process.env.AG_UI_CLIENT)
const runtimeUrl = Proxied && (await startRuntime())

async function startRuntime() {
  process.env.COPILOTKIT_TELEMETRY_DISABLED = "true"
  const { CopilotRuntime } = await import("@copilotkit/runtime/v2")
  const { createCopilotNodeListener } = await import("@copilotkit/runtime/v2/node")
  const runtimes = new URL("node_modules/@copilotkit/runtime/", import.meta.url)
  const { HttpAgent } = createRequire(new URL("package.json", runtimes))("@ag-ui/client") // the release that it pins
  const teams = ["desk", "line", "guarded", "chief", "typed"]
  const agents = Object.fromEntries(teams.map(team => [team, new HttpAgent({ url: `${root}/agui/${team}` })]))
  const server = createServer(createCopilotNodeListener({ runtime: new CopilotRuntime({ agents }), basePath: "/api" }))
  await new Promise(resolve => server.listen(0, "127.0.0.1", resolve))
  return `http://127.0.0.1:${server.address().port}/api`
}
const connect = (team, threadId = crypto.randomUUID()) =>
  Proxied ? new Proxied({ runtimeUrl, agentId: team, threadId }) : new HttpAgent({ url: `${root}/agui/${team}`, threadId })
const stop = ({ threadId }) => fetch(`${root}/agui/desk/threads/${threadId}/stop`, { method: "POST" })
const user = content => ({ id: crypto.randomUUID(), role: "user", content })
const agentOf = (team, ...messages) => {
  const agent = connect(team)
  agent.messages = messages.map(user)
  return agent
}
const said = agent => agent.messages.at(-1).content
const sleep = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds))
const run = async (agent, options = {}) => {
  let finished
  await agent.runAgent(options, { onRunFinishedEvent({ event }) { finished = event } })
  return finished
}

await drive({
  async plain() {
    const agent = agentOf("desk", "Hello")
    await run(agent)
    expect(said(agent), HELLO)
  },
  async stream() {
    const agent = agentOf("line", "a long one")
    const kinds = []
    await agent.runAgent({}, { onEvent({ event }) { kinds.push(event.type) } })
    const count = type => kinds.filter(kind => kind === type).length
    expect([agent.messages[1].content, count("SUBAGENT_STARTED"), count("TEXT_MESSAGE_CONTENT") > 4], [LONG_TEXT, 2, true])
  },
  async "structured output"() {
    expect((await run(agentOf("typed", "warm, as JSON"))).result, PLACE)
  },
  async tools() {
    const tools = [{ name: "weather", description: "The weather.", parameters: { type: "object", properties: { city: { type: "string" } } } }]
    const agent = agentOf("desk", "the weather of both?")
    await run(agent, { tools })
    for (const { id, function: { arguments: args } } of agent.messages.flatMap(({ toolCalls }) => toolCalls ?? [])) {
      agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: id, content: weather(JSON.parse(args)) })
    }
    await run(agent, { tools })
    expect(said(agent), BOTH)
  },
  async history() {
    const agent = agentOf("desk", "one")
    await run(agent)
    agent.addMessage(user("two"))
    await run(agent)
    expect(said(agent), TWO)
  },
  async approval() {
    for (const [team, approved] of [["guarded", true], ["guarded", false], ["chief", true]]) {
      const agent = agentOf(team, "add")
      const { outcome } = await run(agent)
      const resume = outcome.interrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload: { approved } }))
      await run(agent, { resume })
      expect(said(agent).includes("The result is 3."), approved)
    }
  },
  async resume() {
    const agent = agentOf("desk", "a brisk one")
    const sent = agent.runAgent().catch(() => {})
    while (agent.messages.length < 2 || said(agent).length < 30) await sleep(20)
    agent.abortRun()
    await sent
    const later = connect("desk", agent.threadId)
    later.messages = structuredClone(agent.messages)
    await run(later)
    expect([said(later), later.messages.length, said(agent).length < LONG_TEXT.length], [LONG_TEXT, 2, true])
  },
  async failure() {
    const agent = agentOf("desk", "fail")
    let failure = ""
    await agent.runAgent({}, { onRunErrorEvent({ event }) { failure = event.message } }).catch(() => {})
    expect(failure.includes("the model refuses"), true)
    agent.addMessage(user("again"))
    await run(agent)
    expect(said(agent).endsWith(": again"), true)
  },
  async cancel() {
    const agent = agentOf("desk", endless(process.env.AG_UI_NAME))
    const sent = agent.runAgent().catch(() => {})
    while (agent.messages.length < 2 || !said(agent)) await sleep(20)
    await stop(agent)
    await sent
    expect(said(agent).startsWith("begun"), true)
  },
  async stop() {
    const agent = agentOf("desk", endless("a stop by another client"))
    let outcome = ""
    const sent = agent.runAgent({}, {
      onRunFinishedEvent({ event }) { outcome = event.outcome.type },
      onRunErrorEvent({ event }) { outcome = event.code },
    }).catch(() => {})
    while (agent.messages.length < 2 || !said(agent)) await sleep(20)
    await stopTask(agent.state.taskId)
    await sent
    expect([outcome, said(agent).startsWith("begun")], ["cancelled", true])
    agent.addMessage(user("again"))
    await run(agent)
    expect(said(agent).endsWith(": again"), true)
  },
  async "killed worker"() {
    const agent = agentOf("desk", "a long one")
    let snapshots = 0
    const sent = agent.runAgent({}, { onMessagesSnapshotEvent() { snapshots += 1 } })
    while (agent.messages.length < 2 || said(agent).length < 30) await sleep(20)
    await killWorker()
    await sent
    expect([said(agent), agent.messages.length, snapshots > 0], [LONG_TEXT, 2, true])
  },
  async "a hundred runs"() {
    await Promise.all(hundred(process.env.AG_UI_NAME).map(async text => {
      const agent = agentOf("desk", text)
      await run(agent)
      expect(said(agent), answerTo(text))
    }))
  },
})
