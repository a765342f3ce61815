// verify: the chain of digests of a history, computed in the browser from the stored text.
//
//   /history, as text ─► lines of the steps, split as text ─► seq, prev_digest, SHA-256 ─► the first wrong step
//
// No number passes through JavaScript's parser, which would change 1.0 and large integers, and so the digest. The
// digest is that of the stored line without its "digest", as roboco/domain/history/step.py defines it.

import { requestText, taskPath } from "./api.js";
import { sha256 } from "./sha256.js";

/** Return the lines of the steps of a page of `/history`, and the start of the next page or null. */
export function splitPage(text) {
  const page = members(text);
  const steps = page.get("steps").value;
  return { lines: children(steps).map(([from, to]) => steps.slice(from, to)), next: JSON.parse(page.get("next").value) };
}

/** Check a stored line. Return {digest}, or {wrong} with the reason. */
export function checkStep(line, seq, before) {
  try {
    const found = members(line);
    const is = (name, value) => found.get(name)?.value === value;
    if (!is("seq", String(seq))) return { wrong: `its position is ${found.get("seq")?.value}` };
    if (!is("prev_digest", `"${before}"`)) return { wrong: "it does not follow the step before: its prev_digest differs" };
    const { from, to } = found.get("digest");
    const digest = sha256(`${before}\n${line.slice(0, from)}${line.slice(to + 1)}`);
    return is("digest", `"${digest}"`) ? { digest } : { wrong: "it was changed: its digest does not match its content" };
  } catch (error) {
    return { wrong: `it is not a step: ${error.message}` };
  }
}

/** Check the whole history. Return {digests, wrong: {seq, why} | null}; onProgress(steps) follows it. */
export async function verifyHistory(taskId, onProgress, read = requestText) {
  const digests = [];
  let start = 0;
  while (start !== null) {
    const { lines, next } = splitPage(await read(`${taskPath(taskId, "history")}?start=${start}&limit=200`));
    for (const line of lines) {
      const { digest, wrong } = checkStep(line, digests.length, digests.at(-1) ?? "");
      if (wrong) return { digests, wrong: { seq: digests.length, why: wrong } };
      digests.push(digest);
    }
    if (next !== null && next !== digests.length) throw new Error("the pages of the history do not follow each other");
    start = next;
    onProgress(digests.length);
  }
  return { digests, wrong: null };
}

/** Return the stored line of a step. */
export const readLine = async (taskId, seq) => splitPage(await requestText(`${taskPath(taskId, "history")}?start=${seq}&limit=1`)).lines[0] ?? "";

/** Return JSON text with indentation; its numbers stay as they are, and marks of direction are shown as escapes. */
export function indent(text) {
  let depth = 0;
  text = text.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, mark => `\\u${mark.charCodeAt().toString(16).padStart(4, "0")}`);
  const lineBreak = by => `\n${"  ".repeat((depth += by))}`;
  return text.replace(/"(?:[^"\\]|\\.)*"|\{\}|\[\]|[[\]{},:]/g, token => {
    if (token === "{" || token === "[") return token + lineBreak(1);
    if (token === "}" || token === "]") return lineBreak(-1) + token;
    return token === "," ? token + lineBreak(0) : token === ":" ? ": " : token;
  });
}

/** Return the members of a JSON object, by name: their places, and their values as text. */
function members(text) {
  const found = new Map();
  for (const [from, to] of children(text)) {
    const end = endOfText(text, from);
    const name = text.slice(from + 1, end);
    if (found.has(name)) throw new Error(`two members are named ${name}`);
    found.set(name, { from, to, value: text.slice(end + 2, to) });
  }
  return found;
}

/** Return the places [from, to] of the members of a JSON object, or of the items of an array. */
function children(text) {
  const found = [];
  let depth = 0;
  let from = 1;
  for (let at = 0; at < text.length; at++) {
    const sign = text[at];
    if (sign === '"') at = endOfText(text, at);
    else if (sign === "{" || sign === "[") depth += 1;
    else if (sign === "}" || sign === "]") depth -= 1;
    if (depth === 0 || (depth === 1 && sign === ",")) {
      if (at > from) found.push([from, at]);
      if (depth === 0) return at + 1 === text.length ? found : cut();
      from = at + 1;
    }
  }
  return cut();
}

function endOfText(text, start) {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === '"') return at;
  }
  return cut();
}

function cut() {
  throw new Error("it is not whole");
}
