// integrity: what the page knows of the completeness of its stream, in words, and banners for everything that was lost.

import { html, useState } from "../vendor/preact.js";
import { clock, number } from "./format.js";
import { causeOf } from "./reconcile.js";
import { Banner, Hostile } from "./ui.js";

const STATES = { connecting: "connecting …", live: "live", lost: "connection lost, trying again …", ended: "complete", refused: "refused" };
const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

export function Integrity({ task, connection, check }) {
  const { events, chunks, generation, generations, gaps, mismatches } = task.integrity;
  const reconnects = Math.max(0, connection.connections - 1);
  const clean = !gaps.length && !mismatches.length;
  return html`<footer class="integrity dim" data-integrity data-state=${connection.state}>
    <span class=${clean ? "ok" : "bad"}>${plural(events, "event")}, ${plural(chunks, "chunk")}, ${gaps.length ? plural(gaps.length, "gap") : "no gap"}</span>
    ${mismatches.length > 0 && html`<span class="bad">the stream differed from the history in step ${[...new Set(mismatches)].slice(0, 5).join(", ")}; the history is shown</span>`}
    ${task.unknown > 0 && html`<span>${plural(task.unknown, "event")} of a newer release</span>`}
    ${generation && html`<span>generation <code>${generation}</code>${generations > 1 ? ` (${generations})` : ""}</span>`}
    <span>${plural(reconnects, "reconnect")}</span>
    ${check && html`<span data-check>${checkText(check)}</span>`}
    <span class="grow"></span><span class="connection ${connection.state}">${STATES[connection.state]}</span>
  </footer>`;
}

function checkText({ busy, problem, steps, restored }) {
  if (busy) return "comparing with the history …";
  if (problem) return `not compared with the history: ${problem.message}`;
  return `equal to the history: ${plural(steps, "step")}${restored ? `, ${number(restored)} restored` : ""}`;
}

/** A banner for each reset and loss, until the reader closes it. */
export function Banners({ task, check }) {
  const [closed, setClosed] = useState("");
  const lost = task.errors.filter(error => error.code === "events_lost");
  const gaps = task.integrity.gaps.filter(gap => !lost.some(error => error.message === gap));
  const cause = causeOf(task);
  if (!cause || closed === cause.slice(0, -2)) return null;
  const close = html`<button type="button" class="quiet" aria-label="Close the banner" onClick=${() => setClosed(cause.slice(0, -2))}>✕</button>`;
  const after = check && ` ${check.steps == null ? checkText(check) : `The page is ${checkText(check)}.`}`;
  return html`
    ${task.resets.slice(-1).map(({ steps, at }) => html`<${Banner} kind="reset"><span>The live log was lost and began again at ${clock(at)}. ${plural(steps, "step")} of the history remained; text of unfinished turns is void.${after}</span>${close}</${Banner}>`)}
    ${lost.slice(-1).map(({ message }) => html`<${Banner} kind="lost"><span>Events were lost: <${Hostile}>${message}</${Hostile}>.${after}</span>${close}</${Banner}>`)}
    ${gaps.slice(-1).map(gap => html`<${Banner} kind="gap"><span>The stream has a gap: ${gap}.${after}</span>${close}</${Banner}>`)}`;
}
