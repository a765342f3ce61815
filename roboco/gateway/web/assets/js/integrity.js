// integrity: what the page knows of the completeness of its stream, and the comparison with the history.
//
//   reset, gap, lost events, end ─► the newest step that the page has: its digest covers all before it
//        equal, and each step follows the one before ─► only newer steps are added
//        else ─► the whole history, page by page; a step that differs replaces that of the page

import { html, useState } from "../vendor/preact.js";
import { request, taskPath } from "./api.js";
import { clock, number } from "./format.js";
import { addStep } from "./task_state.js";
import { Banner, Hostile } from "./ui.js";

const PAGE = 200; // steps
const STATES = { connecting: "connecting …", live: "live", lost: "connection lost, trying again …", ended: "complete", refused: "refused" };
const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

/** Return why the task must be compared now, or "". Each cause has another value. */
export function causeOf({ resets, endedAt, integrity: { gaps, mismatches } }) {
  const causes = [resets.length, gaps.length, mismatches.length, endedAt ? 1 : 0];
  return causes.some(Boolean) ? causes.join() : "";
}

/** Compare the task with its history. Return {steps, restored}: the steps of the history, and how many the page lacked. */
export async function reconcile(task) {
  const { steps, taskId } = task;
  let last = steps.findIndex((step, i) => step?.prev_digest !== (steps[i - 1]?.digest ?? "")); // does not follow the one before
  if (last < 0) last = steps.length;
  let restored = 0;
  for (let start = Math.max(0, (last -= 1)); start != null; ) {
    const page = await request(`${taskPath(taskId, "history")}?start=${start}&limit=${PAGE}`);
    if (start && start === last && page.steps[0]?.digest !== steps[last].digest) {
      start = 0;
      continue;
    }
    for (const step of page.steps) {
      if (steps[step.seq]?.digest === step.digest) continue;
      restored += 1;
      addStep(task, step);
    }
    start = page.next;
  }
  return { steps: steps.length, restored };
}

export function Integrity({ task, connection: { connections, state }, check }) {
  const { events, chunks, generation, generations, gaps, mismatches } = task.integrity;
  return html`<footer class="integrity dim" data-integrity data-state=${state}>
    <span class=${gaps.length || mismatches.length ? "bad" : ""}>${plural(events, "event")}, ${plural(chunks, "chunk")}, ${gaps.length ? plural(gaps.length, "gap") : "no gap"}</span>
    ${mismatches.length > 0 && html`<span class="bad">the stream differed from the history in step ${[...new Set(mismatches)].slice(0, 5).join(", ")}; the history is shown</span>`}
    ${task.unknown > 0 && html`<span>${plural(task.unknown, "event")} of a newer release</span>`}
    ${generation && html`<span>generation <code>${generation}</code>${generations > 1 ? ` (${generations})` : ""}</span>`}
    <span>${plural(Math.max(0, connections - 1), "reconnect")}</span>
    <span>${textOf(check)}</span>
    <span class="grow"></span><span class="connection ${state}">${STATES[state]}</span>
  </footer>`;
}

/** Return the result of the comparison, in words. */
function textOf(check) {
  if (!check) return "";
  const { busy, problem, steps, restored } = check;
  if (busy) return "comparing with the history …";
  if (problem) return `not compared with the history: ${problem.message}`;
  return `equal to the history: ${plural(steps, "step")}${restored ? `, ${number(restored)} restored` : ""}`;
}

/** A banner for each reset and loss, until the reader closes it. */
export function Banners({ task, check }) {
  const [closed, setClosed] = useState(0);
  const { resets, errors, integrity: { gaps } } = task;
  const reset = resets.at(-1);
  const lost = errors.findLast(error => error.code === "events_lost");
  const gap = gaps.findLast(one => one !== lost?.message);
  const count = resets.length + gaps.length;
  if (count === closed) return null;
  const banner = (kind, text, detail) => html`<${Banner} kind=${kind}>
    <span>${text}<${Hostile}>${detail}<//>. The comparison: ${textOf(check) || "it follows"}.</span>
    <button class="quiet" aria-label="Close the banner" onClick=${() => setClosed(count)}>✕</button>
  <//>`;
  return html`
    ${reset && banner("reset", `The live log was lost and began again at ${clock(reset.at)}: text of unfinished turns is void, and the history has `, plural(reset.steps, "step"))}
    ${lost && banner("lost", "Events were lost: ", lost.message)}
    ${gap && banner("gap", "The stream has a gap: ", gap)}`;
}
