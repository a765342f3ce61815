// openai-agents of npm, with responses, and with chat completions where it says so.

import {
  Agent, MemorySession, OpenAIChatCompletionsModel, OpenAIConversationsSession, run, setTracingDisabled,
  startOpenAIConversationsSession, tool,
} from "@openai/agents"
import OpenAI from "openai"
import { z } from "zod"

import { HELLO, PLACE, STOP, TWO, WEATHER, drive, endless, expect, expectPieces, weather } from "./rows.mjs"

setTracingDisabled(true)
const settings = { name: "one", instructions: "Be brief.", model: "desk" }
const agent = new Agent(settings)

await drive({
  async plain() {
    expect((await run(agent, "Hello")).finalOutput, HELLO)
  },
  async stream() {
    await expectPieces((await run(agent, "a long one", { stream: true })).toTextStream())
  },
  async tools() {
    const weatherTool = tool({ name: "weather", description: "The weather.", parameters: z.object({ city: z.string() }), execute: weather })
    expect((await run(new Agent({ ...settings, tools: [weatherTool] }), "the weather?")).finalOutput, WEATHER)
  },
  async "structured output"() {
    const outputType = z.object({ city: z.string(), degrees: z.number().int() })
    expect((await run(new Agent({ ...settings, outputType }), "as JSON")).finalOutput, PLACE)
  },
  async parameters() {
    const modelSettings = { temperature: 0.2, topP: 0.9, maxTokens: 500, parallelToolCalls: false }
    expect((await run(new Agent({ ...settings, modelSettings }), "Hello")).finalOutput, HELLO)
  },
  async history() {
    for (const session of [new MemorySession(), new OpenAIConversationsSession()]) {
      await run(agent, "one", { session })
      for (const _ of [1, 2]) {  // the second time after the first was undone
        expect((await run(agent, "two", { session })).finalOutput, TWO)
        expect([(await session.popItem()).role, (await session.popItem()).role], ["assistant", "user"])
      }
      await session.clearSession()
      expect(await session.getItems(), [])
    }
    const conversationId = await startOpenAIConversationsSession()
    await run(agent, "one", { conversationId })
    expect((await run(agent, "two", { conversationId })).finalOutput, TWO)
  },
  async cancel() {
    const model = new OpenAIChatCompletionsModel(new OpenAI({ defaultHeaders: STOP }), "desk")
    const controller = new AbortController()
    const result = await run(new Agent({ ...settings, model }), endless("@openai/agents"), { stream: true, signal: controller.signal })
    for await (const piece of result.toTextStream()) if (piece) break
    controller.abort()
    await result.completed.catch(() => {})
  },
})
