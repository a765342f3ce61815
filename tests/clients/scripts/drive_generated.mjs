// A client that @hey-api/openapi-ts generates from the gateway's OpenAPI document, which redocly finds no error in.

import { execFileSync } from "node:child_process"
import { mkdtempSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

import { createClient } from "@hey-api/openapi-ts"
import { build } from "esbuild"

import { HELLO, TWO, drive, expect } from "./rows.mjs"

const baseUrl = process.env.ROBOTO_SERVICE_ENDPOINT
const here = dirname(fileURLToPath(import.meta.url))
const folder = mkdtempSync(join(tmpdir(), "made-"))
const document = join(folder, "openapi.json")
writeFileSync(document, await (await fetch(`${baseUrl}/v1/openapi.json`)).text())
const redocly = [join(here, "node_modules/@redocly/cli/bin/cli.js"), "lint", "--skip-rule=no-illogical-composition-keywords", document]
execFileSync(process.execPath, redocly, { env: { ...process.env, REDOCLY_TELEMETRY: "off" }, stdio: "pipe" })
await createClient({ input: document, output: join(folder, "client"), logs: { level: "silent" } })
const contents = `export * from "./client/sdk.gen"; export { client } from "./client/client.gen"`
const outfile = join(folder, "made.mjs")
await build({ stdin: { contents, resolveDir: folder }, bundle: true, platform: "node", format: "esm", outfile })
const api = await import(outfile)
api.client.setConfig({ baseUrl })

async function data(call) {
  const { data, error } = await call
  if (error) throw new Error(JSON.stringify(error))
  return data
}

const resultOf = task_id => data(api.getResult({ path: { task_id }, query: { wait: 20 } }))

await drive({
  async plain() {
    const { task_id } = await data(api.createTask({ body: { team: "desk", prompt: "Hello" } }))
    expect((await resultOf(task_id)).text, HELLO)
  },
  async history() {
    const { task_id } = await data(api.createTask({ body: { team: "desk", prompt: "one", conversation: true } }))
    await resultOf(task_id)
    await data(api.sendMessage({ path: { task_id }, query: { wait: 20 }, body: { message: "two" } }))
    expect((await resultOf(task_id)).text, TWO)
  },
})
