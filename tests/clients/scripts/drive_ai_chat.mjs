// The chat of the AI SDK, with its own transport. Its state is kept here; useChat keeps it in React.

import {
  AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses as decided,
  lastAssistantMessageIsCompleteWithToolCalls as returned,
} from "ai"

import { BOTH, HELLO, LONG_TEXT, PLACE, TWO, answerTo, drive, endless, expect, hundred, killWorker, stopTask, weather } from "./rows.mjs"

const root = process.env.OPENAI_BASE_URL.replace("/openai/v1", "")

class State {
  messages = []
  status = "ready"
  error = undefined
  pushMessage = message => { this.messages = [...this.messages, message] }
  popMessage = () => { this.messages = this.messages.slice(0, -1) }
  replaceMessage = (at, message) => { this.messages = this.messages.map((one, index) => (index === at ? structuredClone(message) : one)) }
  snapshot = value => structuredClone(value)
}

class Chat extends AbstractChat {
  constructor(team, options = {}) {
    super({ state: new State(), transport: new DefaultChatTransport({ api: `${root}/ai/${team}`, body: options.body }), ...options })
  }
  get text() {
    return this.lastMessage.parts.filter(({ type }) => type === "text").map(({ text }) => text).join("")
  }
}

const sleep = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds))
const settled = async chat => {
  do await sleep(50)
  while (!["ready", "error"].includes(chat.status))
}

await drive({
  async plain() {
    const chat = new Chat("desk")
    await chat.sendMessage({ text: "Hello" })
    expect([chat.text, chat.status, chat.messages.length], [HELLO, "ready", 2])
  },
  async stream() {
    const chat = new Chat("line")
    let pieces = 0
    chat.state.replaceMessage = (at, message) => { pieces += 1; chat.state.messages[at] = structuredClone(message) }
    await chat.sendMessage({ text: "a long one" })
    const agents = chat.lastMessage.parts.flatMap(({ type, data }) => (type === "data-agent" ? [data.agent] : []))
    expect([chat.text.slice(0, LONG_TEXT.length), pieces > 2, agents], [LONG_TEXT, true, ["first", "second"]])
  },
  async "structured output"() {
    const chat = new Chat("typed")
    await chat.sendMessage({ text: "warm, as JSON" })
    expect(chat.lastMessage.parts.find(({ type }) => type === "data-output").data.value, PLACE)
  },
  async tools() {
    const declared = [{ name: "weather", description: "The weather.", parameters: { type: "object", properties: { city: { type: "string" } } } }]
    const chat = new Chat("desk", {
      body: { tools: declared },
      sendAutomaticallyWhen: returned,
      onToolCall({ toolCall: { toolName, toolCallId, input } }) {
        void chat.addToolOutput({ tool: toolName, toolCallId, output: weather(input) })
      },
    })
    await chat.sendMessage({ text: "the weather of both?" })
    expect([chat.text.endsWith(BOTH), chat.messages.length], [true, 2])
  },
  async history() {
    const chat = new Chat("desk")
    await chat.sendMessage({ text: "one" })
    await chat.sendMessage({ text: "two" })
    expect(chat.text, TWO)
    await chat.regenerate()
    expect([chat.text, chat.messages.length], [TWO, 4])
  },
  async approval() {
    const ends = { chief: "approval-responded", true: "output-available", false: "output-denied" }
    for (const [team, approved] of [["guarded", true], ["guarded", false], ["chief", true]]) {
      const chat = new Chat(team, { sendAutomaticallyWhen: decided })
      await chat.sendMessage({ text: "add" })
      const asked = () => chat.lastMessage.parts.find(({ approval }) => approval)
      await chat.addToolApprovalResponse({ id: asked().approval.id, approved })
      await settled(chat)
      expect([asked().state, chat.text.includes("The result is 3.")], [ends[team] ?? ends[approved], approved])
    }
  },
  async resume() {
    const chat = new Chat("desk")
    const sent = chat.sendMessage({ text: "a brisk one" })
    while (!chat.lastMessage || chat.lastMessage.role === "user" || chat.text.length < 30) await sleep(20)
    const page = new Chat("desk", { id: chat.id })
    page.messages = structuredClone(chat.messages)
    await chat.stop() // closes the connection alone
    await sent
    await page.resumeStream()
    expect([page.text, page.messages.length, chat.text.length < LONG_TEXT.length], [LONG_TEXT, 2, true])
    await page.resumeStream()
    expect(page.status, "ready")
  },
  async failure() {
    const chat = new Chat("desk")
    await chat.sendMessage({ text: "fail" })
    expect([chat.status, chat.error.message.includes("the model refuses")], ["error", true])
    await chat.sendMessage({ text: "again" })
    expect([chat.status, chat.text.endsWith(": again")], ["ready", true])
  },
  async cancel() {
    const chat = new Chat("desk")
    const sent = chat.sendMessage({ text: endless("ai") })
    while (!chat.lastMessage || chat.lastMessage.role === "user" || !chat.text) await sleep(20)
    await fetch(`${root}/ai/desk/${chat.id}/stop`, { method: "POST" })
    await sent
    expect([chat.status, chat.text.startsWith("begun")], ["ready", true])
  },
  async stop() {
    const chat = new Chat("desk")
    const sent = chat.sendMessage({ text: endless("a stop by another client") })
    while (!chat.lastMessage || chat.lastMessage.role === "user" || !chat.text) await sleep(20)
    await stopTask(chat.lastMessage.metadata.taskId)
    await sent
    expect([chat.status, chat.text.startsWith("begun")], ["ready", true])
    await chat.sendMessage({ text: "again" })
    expect([chat.status, chat.text.endsWith(": again")], ["ready", true])
  },
  async "killed worker"() {
    const chat = new Chat("desk")
    let longest = 0, isVoid = false
    chat.state.replaceMessage = (at, message) => {
      chat.state.messages[at] = structuredClone(message)
      isVoid ||= chat.text.length < longest
      longest = Math.max(longest, chat.text.length)
    }
    const sent = chat.sendMessage({ text: "a long one" })
    while (longest < 30) await sleep(20)
    await killWorker()
    await sent
    expect([chat.text, chat.status, isVoid], [LONG_TEXT, "ready", true])
  },
  async "a hundred runs"() {
    await Promise.all(hundred("ai").map(async text => {
      const chat = new Chat("desk")
      await chat.sendMessage({ text })
      expect(chat.error?.message ?? chat.text, answerTo(text))
    }))
  },
})
