// MCP's conformance suite. Its scenarios call tools with arguments of their own: this proxy makes prompts of them, for
// the teams of tests/clients/conformance.py, which have the names of these tools. conformance.yml says what fails.

import { spawn } from "node:child_process"
import { createServer, request } from "node:http"
import { createRequire } from "node:module"
import { fileURLToPath } from "node:url"

import { drive } from "./rows.mjs"

const { port } = new URL(process.env.OPENAI_BASE_URL)
const suite = createRequire(import.meta.url).resolve("@modelcontextprotocol/conformance/dist/index.js")

const withPrompt = body => {
  try {
    const message = JSON.parse(body)
    const { params } = message
    if (message.method !== "tools/call" || params.name === "roboco_task" || !params.arguments) return body
    params.arguments = { prompt: JSON.stringify(params.arguments), ...params.arguments }
    return Buffer.from(JSON.stringify(message))
  } catch {
    return body
  }
}

const proxy = createServer(async (received, response) => {
  const body = withPrompt(Buffer.concat(await received.toArray()))
  const { url: path, method, headers } = received
  const sent = request({ port, path, method, headers: { ...headers, "content-length": body.length } }, answer => {
    response.writeHead(answer.statusCode, answer.headers)
    answer.pipe(response)
  })
  response.on("close", () => sent.destroy())
  sent.on("error", () => response.destroy())
  sent.end(body)
})
await new Promise(resolve => proxy.listen(0, "127.0.0.1", resolve))

await drive({
  async plain() {
    const url = `http://127.0.0.1:${proxy.address().port}/mcp`
    const failures = fileURLToPath(new URL("conformance.yml", import.meta.url))
    const options = ["server", "--url", url, "--suite", "all", "--expected-failures", failures]
    const child = spawn(process.execPath, [suite, ...options], { stdio: ["ignore", "pipe", "inherit"] })
    const output = Buffer.concat(await child.stdout.toArray()).toString()
    const code = child.exitCode ?? (await new Promise(resolve => child.on("close", resolve)))
    if (code) throw new Error(output.slice(output.indexOf("=== SUMMARY")).replaceAll(/\s+/g, " ").slice(-450))
  },
})
