// The chat of the AI SDK, with its own transport. Its state is kept here; useChat keeps it in React.

import {
  AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses as decided,
  lastAssistantMessageIsCompleteWithToolCalls as returned,
} from "ai"

import { HELLO, LONG_TEXT, TWO, WEATHER, drive, endless, expect, weather } from "./rows.mjs"

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
    const chat = new Chat("desk")
    let pieces = 0
    chat.state.replaceMessage = (at, message) => { pieces += 1; chat.state.messages[at] = structuredClone(message) }
    await chat.sendMessage({ text: "a long one" })
    expect([chat.text, pieces > 2], [LONG_TEXT, true])
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
    await chat.sendMessage({ text: "the weather?" })
    expect([chat.text.endsWith(WEATHER), chat.messages.length], [true, 2])
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
    for (const approved of [true, false]) {
      const chat = new Chat("guarded", { sendAutomaticallyWhen: decided })
      await chat.sendMessage({ text: "add" })
      const call = chat.lastMessage.parts.find(({ type }) => type === "dynamic-tool")
      await chat.addToolApprovalResponse({ id: call.approval.id, approved })
      await settled(chat)
      const { state } = chat.lastMessage.parts.find(({ type }) => type === "dynamic-tool")
      expect([state, chat.text.includes("The result is 3.")], [approved ? "output-available" : "output-denied", approved])
    }
  },
  async resume() {
    const chat = new Chat("desk")
    const sent = chat.sendMessage({ text: "a long slow one" })
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
  async cancel() {
    const chat = new Chat("desk")
    const sent = chat.sendMessage({ text: endless("ai") })
    while (!chat.lastMessage || chat.lastMessage.role === "user" || !chat.text) await sleep(20)
    await fetch(`${root}/ai/desk/${chat.id}/stop`, { method: "POST" })
    await sent
    expect([chat.status, chat.text.startsWith("begun")], ["ready", true])
  },
})
