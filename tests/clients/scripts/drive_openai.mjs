// openai of npm, with responses and with chat completions.

import OpenAI from "openai"
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod"
import { z } from "zod"

import { HELLO, PLACE, STOP, TWO, WEATHER, drive, endless, expect, expectPieces, weather } from "./rows.mjs"

const client = new OpenAI()
const model = "desk"
const Place = z.object({ city: z.string(), degrees: z.number().int() })
const said = content => [{ role: "user", content }]
const city = { type: "object", properties: { city: { type: "string" } }, required: ["city"] }
const text = completion => completion.choices[0].message.content

await drive({
  async plain() {
    expect((await client.responses.create({ model, input: "Hello" })).output_text, HELLO)
    expect(text(await client.chat.completions.create({ model, messages: said("Hello") })), HELLO)
  },
  async stream() {
    const events = await client.responses.create({ model, input: "a long one", stream: true })
    await expectPieces((async function* () { for await (const event of events) if (event.type === "response.output_text.delta") yield event.delta })())
    const chunks = await client.chat.completions.create({ model, messages: said("a long one"), stream: true })
    await expectPieces((async function* () { for await (const chunk of chunks) yield chunk.choices[0]?.delta.content })())
  },
  async tools() {
    const tools = [{ type: "function", name: "weather", parameters: city }]
    const first = await client.responses.create({ model, input: "the weather?", tools })
    const call = first.output.find(item => item.type === "function_call")
    const output = { type: "function_call_output", call_id: call.call_id, output: weather(JSON.parse(call.arguments)) }
    const second = await client.responses.create({ model, input: [output], previous_response_id: first.id, tools })
    expect(second.output_text, WEATHER)
    const runner = client.chat.completions.runTools({
      model,
      messages: said("the weather?"),
      tools: [{ type: "function", function: { name: "weather", parameters: city, parse: JSON.parse, function: weather } }],
    })
    expect(await runner.finalContent(), WEATHER)
  },
  async "structured output"() {
    const response = await client.responses.parse({ model, input: "as JSON", text: { format: zodTextFormat(Place, "place") } })
    expect(response.output_parsed, PLACE)
    const completion = await client.chat.completions.parse({
      model, messages: said("as JSON"), response_format: zodResponseFormat(Place, "place"),
    })
    expect(completion.choices[0].message.parsed, PLACE)
  },
  async parameters() {
    const response = await client.responses.create({ model, input: "Hello", temperature: 0.2, top_p: 0.9, max_output_tokens: 500 })
    expect(response.output_text, HELLO)
    const completion = await client.chat.completions.create({
      model, messages: said("Hello"), temperature: 0.2, max_tokens: 500, seed: 7, frequency_penalty: 0.1,
    })
    expect(text(completion), HELLO)
  },
  async history() {
    const first = await client.responses.create({ model, input: "one" })
    expect((await client.responses.create({ model, input: "two", previous_response_id: first.id })).output_text, TWO)
    const messages = [...said("one"), { role: "assistant", content: "1" }, ...said("two")]
    expect(text(await client.chat.completions.create({ model, messages })), TWO)
  },
  async cancel() {
    const response = await client.responses.create({ model, input: endless("openai (npm)"), background: true })
    expect((await client.responses.cancel(response.id)).status, "cancelled")
    const chunks = await client.chat.completions.create({ model, messages: said(endless("openai (npm)")), stream: true }, { headers: STOP })
    for await (const chunk of chunks) if (chunk.choices[0].delta.content) break
  },
})
