// Runs rows of a client's script, and prints a line of JSON for each, as rows.py does.
import { isDeepStrictEqual } from "node:util"

export const HELLO = "helper answers message 1: Hello"
export const TWO = "helper answers message 2: two"
export const LONG_TEXT = Array.from({ length: 60 }, (_, number) => `word ${number}, `).join("")
export const PLACE = { city: "Bonn", degrees: 21 }
export const STOP = { "X-Roboco-On-Disconnect": "stop" }
export const WEATHER = "The result is sun in Bonn."
export const BOTH = "The results are ['sun in Bonn', 'sun in Rome']."
export const endless = name => `endless for ${name}.`
/** The prompts and the answers of a hundred tasks at once. */
export const hundred = name => Array.from({ length: 100 }, (_, number) => `one of a hundred for ${name}: ${number}.`)
export const answerTo = prompt => `helper answers message 1: ${prompt}`
/** Let the runner kill the worker, once each client has text. */
export const killWorker = () => fetch(process.env.KILL)
/** Stop a task as another client does, by the REST API. */
export const stopTask = id => fetch(`${process.env.OPENAI_BASE_URL.replace("/openai/v1", "")}/v1/tasks/${id}/stop`, { method: "POST" })
export const weather = ({ city }) => `sun in ${city}`

const plain = value => JSON.parse(JSON.stringify([value]))

/** Throw an error if the values differ as JSON. Members of objects have no order. */
export function expect(found, expected) {
  if (!isDeepStrictEqual(plain(found), plain(expected))) {
    throw new Error(`${JSON.stringify(found)} is not ${JSON.stringify(expected)}`)
  }
}

/** Throw an error if the stream of pieces is not the long text, in several pieces. */
export async function expectPieces(pieces) {
  const found = []
  for await (const piece of pieces) if (piece) found.push(piece)
  expect(found.join(""), LONG_TEXT)
  if (found.length < 2) throw new Error("the text arrived in one piece")
}

export async function drive(rows) {
  for (const row of process.argv.slice(2)) {
    const began = Date.now()
    let outcome = row in rows ? "ok" : "-"
    try {
      await rows[row]?.()
    } catch (error) {
      outcome = `${error.name}: ${error.message}`.split("\n")[0].slice(0, 500)
    }
    console.log(JSON.stringify({ row, outcome, seconds: (Date.now() - began) / 1000 }))
  }
  process.exit()
}
