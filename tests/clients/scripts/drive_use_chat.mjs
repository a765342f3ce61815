// The page of `roboco init --web` in Chromium: useChat of @ai-sdk/react. Vite serves it, as `npm run dev` does.

import { cpSync, mkdtempSync, rmSync } from "node:fs"
import { fileURLToPath } from "node:url"

import { chromium } from "playwright-core"
import { createServer } from "vite"

import { HELLO, LONG_TEXT, TWO, drive, endless, expect, killWorker } from "./rows.mjs"

const gateway = process.env.OPENAI_BASE_URL.replace("/openai/v1", "")
let team = "desk"
const root = mkdtempSync(fileURLToPath(new URL("page-", import.meta.url)))
process.on("exit", () => rmSync(root, { recursive: true }))
cpSync(process.env.PAGE, root, { recursive: true })
const proxy = { "/ai": { target: gateway, rewrite: path => path.replace("/ai/team", `/ai/${team}`) } }
const server = await createServer({ root, configFile: false, logLevel: "error", server: { proxy, hmr: false, port: 0 } })
await server.listen()
const [url] = server.resolvedUrls.local

const args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args })
const page = await (await browser.newContext()).newPage()
page.setDefaultTimeout(60_000)
const failures = []
page.on("pageerror", error => failures.push(error.message))

const open = async name => {
  team = name
  await page.goto("about:blank") // else the same address loads nothing
  await page.goto(url)
}
const say = async text => {
  await page.getByPlaceholder("Message").fill(text)
  await page.getByRole("button", { name: "Send" }).click()
}
const settled = () => page.waitForSelector("button:text('Stop'):disabled")
/** Return the texts of the newest answer. */
const texts = async () => (await page.locator("article:last-of-type p").allTextContents()).map(text => text.trim())
const shows = text => page.getByText(text).last().waitFor()

await drive({
  async plain() {
    await open("desk")
    await say("Hello")
    await shows(HELLO)
    await settled()
    await page.reload()
    await shows(HELLO)
    expect([await page.locator("article").count(), failures], [2, []])
  },
  async stream() {
    await open("line")
    await say("a long one")
    await shows("word 1,")
    await settled()
    expect([await page.locator("article:last-of-type b").allTextContents(), (await texts())[0]], [["first", "second"], LONG_TEXT.trim()])
  },
  async history() {
    await open("desk")
    await say("one")
    await shows("message 1: one")
    await settled()
    await say("two")
    await shows(TWO)
    await settled()
    await say("a brisk one")
    await shows("word 3,")
    await page.goto("about:blank")
    await page.waitForTimeout(6_000) // the answer is complete before the page is there again
    await page.goBack()
    await shows("word 59,")
    await settled()
    expect([await texts(), await page.locator("article").count()], [[LONG_TEXT.trim()], 6])
  },
  async approval() {
    for (const [button, text] of [["Approve", "The result is 3."], ["Deny", "did not approve"]]) {
      await open("guarded")
      await say("add")
      await page.getByRole("button", { name: button }).click()
      await shows(text)
      await settled()
    }
  },
  async resume() {
    await open("desk")
    await say("a brisk one")
    await shows("word 3,")
    await page.reload()
    await shows("word 59,")
    await settled()
    expect([await texts(), await page.locator("article").count()], [[LONG_TEXT.trim()], 2])
  },
  async failure() {
    await open("desk")
    await say("fail")
    await page.getByRole("alert").getByText("the model refuses").waitFor()
  },
  async "killed worker"() {
    await open("desk")
    await say("a long one")
    await shows("word 3,")
    await killWorker()
    await shows("word 59,")
    await settled()
    expect(await texts(), [LONG_TEXT.trim()])
  },
  async cancel() {
    await open("desk")
    await say(endless("@ai-sdk/react"))
    await shows("begun")
    await page.getByRole("button", { name: "Stop" }).click()
    await settled()
    expect((await texts())[0].startsWith("begun"), true)
  },
})
