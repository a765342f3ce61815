// api: requests to the gateway.

const BASE = new URL("../../", import.meta.url); // in the SharedWorker, too, which has another address than the page

export class ApiProblem extends Error {
  constructor(status, { detail, title, remedy }) {
    super(detail || title || `the gateway answered ${status}`);
    Object.assign(this, { status, remedy });
  }
}

export const taskPath = (...names) => `v1/tasks/${names.map(encodeURIComponent).join("/")}`;

/** Throws ApiProblem unless the answer is a success; its status is 0 if nothing answers. */
export async function send(path, options) {
  const answer = await fetch(new URL(path, BASE), { cache: "no-store", redirect: "error", ...options }).catch(() => {
    throw new ApiProblem(0, { detail: "the gateway does not answer", remedy: "check that it runs, then try again" });
  });
  if (answer.ok) return answer;
  throw new ApiProblem(answer.status, await answer.json().catch(() => ({})));
}

export const request = async (path, options) => (await send(path, options)).json().catch(() => null);
export const requestText = async path => (await send(path)).text();

/** `key` makes a repetition harmless: one for each decision of the user. */
export const post = (path, body = {}, key = "") =>
  request(path, { method: "POST", headers: { "Content-Type": "application/json", ...(key && { "Idempotency-Key": key }) }, body: JSON.stringify(body) });

export const newKey = () => crypto.getRandomValues(new Uint32Array(4)).join("-");

export const actionAddress = (name, given = {}) => `#/operations/${name}?${new URLSearchParams(given)}`;
