// HttpAgent of AG-UI, of the release that AG_UI_CLIENT names.

import { HELLO, LONG_TEXT, TWO, WEATHER, drive, endless, expect, weather } from "./rows.mjs"

const { HttpAgent } = await import(process.env.AG_UI_CLIENT)
const root = process.env.OPENAI_BASE_URL.replace("/openai/v1", "")
const user = content => ({ id: crypto.randomUUID(), role: "user", content })
const agentOf = (team, ...messages) => {
  const agent = new HttpAgent({ url: `${root}/agui/${team}` })
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
  async tools() {
    const tools = [{ name: "weather", description: "The weather.", parameters: { type: "object", properties: { city: { type: "string" } } } }]
    const agent = agentOf("desk", "the weather?")
    await run(agent, { tools })
    const [{ id, function: { arguments: args } }] = agent.messages.flatMap(({ toolCalls }) => toolCalls ?? [])
    agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: id, content: weather(JSON.parse(args)) })
    await run(agent, { tools })
    expect(said(agent), WEATHER)
  },
  async history() {
    const agent = agentOf("desk", "one")
    await run(agent)
    agent.addMessage(user("two"))
    await run(agent)
    expect(said(agent), TWO)
  },
  async approval() {
    for (const approved of [true, false]) {
      const agent = agentOf("guarded", "add")
      const { outcome } = await run(agent)
      const resume = outcome.interrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload: { approved } }))
      await run(agent, { resume })
      expect(said(agent).includes("The result is 3."), approved)
    }
  },
  async resume() {
    const agent = agentOf("desk", "a long slow one")
    const sent = agent.runAgent().catch(() => {})
    while (agent.messages.length < 2 || said(agent).length < 30) await sleep(20)
    agent.abortRun()
    await sent
    const later = new HttpAgent({ url: agent.url, threadId: agent.threadId })
    later.messages = structuredClone(agent.messages)
    await run(later)
    expect([said(later), later.messages.length, said(agent).length < LONG_TEXT.length], [LONG_TEXT, 2, true])
  },
  async cancel() {
    const agent = agentOf("desk", endless(process.env.AG_UI_NAME))
    const sent = agent.runAgent().catch(() => {})
    while (agent.messages.length < 2 || !said(agent)) await sleep(20)
    await fetch(`${agent.url}/threads/${agent.threadId}/stop`, { method: "POST" })
    await sent
    expect(said(agent).startsWith("begun"), true)
  },
})
