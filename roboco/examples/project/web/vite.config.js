// `npm run dev` sends the requests of the page to the gateway, with a key that the page does not see.
const { ROBOCO_GATEWAY = "http://127.0.0.1:7713", ROBOCO_KEY } = process.env
const headers = ROBOCO_KEY ? { Authorization: `Bearer ${ROBOCO_KEY}` } : {}

export default { server: { proxy: { "/ai": { target: ROBOCO_GATEWAY, headers } } } }
