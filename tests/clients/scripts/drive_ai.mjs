// ai, with the provider that AI_PROVIDER names: openai (responses), openai-compatible (chat completions), open-responses.

import { createOpenResponses } from "@ai-sdk/open-responses"
import { createOpenAI } from "@ai-sdk/openai"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { Output, generateText, streamText, tool } from "ai"
import { z } from "zod"

import { HELLO, PLACE, STOP, TWO, WEATHER, drive, endless, expect, expectPieces, weather } from "./rows.mjs"

const name = process.env.AI_PROVIDER
const baseURL = process.env.OPENAI_BASE_URL
const apiKey = process.env.OPENAI_API_KEY
const provider = {
  openai: options => createOpenAI({ baseURL, apiKey, ...options }),
  "openai-compatible": options =>
    createOpenAICompatible({ name: "roboco", baseURL, apiKey, supportsStructuredOutputs: true, ...options }),
  "open-responses": options => createOpenResponses({ name: "roboco", url: `${baseURL}/responses`, apiKey, ...options }),
}[name]
const model = provider({})("desk")

await drive({
  async plain() {
    expect((await generateText({ model, prompt: "Hello" })).text, HELLO)
  },
  async stream() {
    await expectPieces(streamText({ model, prompt: "a long one" }).textStream)
  },
  async tools() {
    const tools = { weather: tool({ description: "The weather.", inputSchema: z.object({ city: z.string() }), execute: weather }) }
    expect((await generateText({ model, prompt: "the weather?", tools, stopWhen: ({ steps }) => steps.length > 2 })).text, WEATHER)
  },
  async "structured output"() {
    const schema = z.object({ city: z.string(), degrees: z.number().int() })
    expect((await generateText({ model, prompt: "as JSON", output: Output.object({ schema }) })).output, PLACE)
  },
  async parameters() {
    expect((await generateText({ model, prompt: "Hello", temperature: 0.2, maxOutputTokens: 500, topP: 0.9, seed: 7 })).text, HELLO)
  },
  async history() {
    const messages = [{ role: "user", content: "one" }]
    const first = await generateText({ model, messages })
    messages.push(...(first.responseMessages ?? first.response.messages), { role: "user", content: "two" })
    expect((await generateText({ model, messages })).text, TWO)
  },
  async cancel() {
    const controller = new AbortController()
    const result = streamText({
      model: provider({ headers: STOP })("desk"), prompt: endless(`@ai-sdk/${name}`), abortSignal: controller.signal, onError() {},
    })
    for await (const piece of result.textStream) {
      if (piece) break
    }
    controller.abort()
  },
})
