// A producer and follower in another language, of Node's standard library alone: `node producer.mjs PORT < arguments.json`.
// It pushes a Celery message of protocol 2 to the queue, signed if ROBOCO_SIGNING_KEYS is set, and prints each message
// of both logs of the task on a line.
import { createHmac, randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { connect } from "node:net"

const QUEUE = "roboco.coordinator"

function message(given) {
  const id = randomUUID()
  const headers = { task: "roboco.submit", id }
  const body = JSON.stringify([[], given, {}])
  if (process.env.ROBOCO_SIGNING_KEYS) {
    const sent = Math.floor(Date.now() / 1000)
    const covered = JSON.stringify([sent, headers.task, id, null, null, null])
    const key = process.env.ROBOCO_SIGNING_KEYS.split(",")[0].trim()
    headers.roboco_signature = `${sent}:${createHmac("sha256", key).update(`${covered}\n${body}`).digest("hex")}`
  }
  const properties = { delivery_tag: id, delivery_info: { exchange: "", routing_key: QUEUE } }
  return JSON.stringify({ headers, body, properties, "content-type": "application/json", "content-encoding": "utf-8" })
}

// Return the answer of RESP 2 at an offset of the bytes and the offset after it, or null if it is incomplete.
function read(bytes, at) {
  const end = bytes.indexOf("\r\n", at)
  if (end < 0) return null
  const kind = String.fromCharCode(bytes[at])
  const rest = bytes.toString("utf8", at + 1, end)
  if (kind === "-") throw new Error(rest)
  if (rest === "-1") return [null, end + 2]
  if (kind === "$") {
    const after = end + 2 + Number(rest)
    return bytes.length < after + 2 ? null : [bytes.toString("utf8", end + 2, after), after + 2]
  }
  if (kind !== "*") return [rest, end + 2]
  const list = []
  for (let place = end + 2; ; ) {
    if (list.length === Number(rest)) return [list, place]
    const one = read(bytes, place)
    if (one === null) return null
    list.push(one[0])
    place = one[1]
  }
}

const socket = connect(Number(process.argv[2]), "127.0.0.1")
const pieces = socket[Symbol.asyncIterator]()

async function redis(...words) {
  socket.write(`*${words.length}\r\n` + words.map(word => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join(""))
  for (let bytes = Buffer.alloc(0); ; ) {
    const { value, done } = await pieces.next()
    if (done) throw new Error("redis has closed the connection")
    bytes = Buffer.concat([bytes, value])
    const answer = read(bytes, 0)
    if (answer !== null) return answer[0]
  }
}

const given = JSON.parse(readFileSync(0, "utf8"))
const at = { [`roboco:{${given.task_id}}:content`]: "0", [`roboco:{${given.task_id}}:events`]: "0" }
await redis("LPUSH", QUEUE, message(given))
for (let ended = false; !ended; ) {
  const logs = await redis("XREAD", "BLOCK", "5000", "STREAMS", ...Object.keys(at), ...Object.values(at))
  for (const [log, entries] of logs ?? []) {
    for (const [number, [, text]] of entries) {
      at[log] = number
      ended ||= JSON.parse(text).type === "event_task_end"
      console.log(text)
    }
  }
}
socket.end()
