// integrity: what the page knows of the completeness of its stream, and the comparison with the history.
//
//   reset, gap, end ─► the newest step: its digest covers all before it ─► equal: only newer steps are read, else all of them

import { html, useState } from "../vendor/preact.js";
import { request, taskPath } from "./api.js";
import { clock, number } from "./format.js";
import { addStep } from "./task_state.js";
import { Banner, Hostile } from "./ui.js";

const STATES = { connecting: "connecting …", live: "live", lost: "connection lost, trying again …", ended: "complete", refused: "refused" };
const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

/** Return why the task must be compared now, or "". Each cause has another value. */
export function causeOf({ resets, endedAt, integrity: { gaps, mismatches } }) {
  const causes = [resets.length, gaps.length, mismatches.length, endedAt ? 1 : 0];
  return causes.some(Boolean) ? causes.join() : "";
}

/** Compare the task with its history. Return {steps, restored}: the steps of the history, and how many the page lacked. */
export async function reconcile(task, first = newest(task.steps)) {
  const { steps, taskId } = task;
  let [start, restored] = [first, 0];
  while (start != null) {
    const page = await request(`${taskPath(taskId, "history")}?start=${start}&limit=200`);
    for (const step of page.steps) {
      if (steps[step.seq]?.digest === step.digest) continue;
      if (first && step.seq === first) return reconcile(task, 0);
      restored += 1;
      addStep(task, step);
    }
    start = page.next;
  }
  return { steps: steps.length, restored };
}

/** Return the position of the last step up to which each follows the one before. */
function newest(steps) {
  let seq = 0;
  while (steps[seq] && steps[seq].prev_digest === (steps[seq - 1]?.digest ?? "")) seq += 1;
  return Math.max(0, seq - 1);
}

export function Integrity({ task, connection: { connections, state }, check }) {
  const { events, chunks, generation, generations, gaps, mismatches } = task.integrity;
  return html`<footer class="integrity dim" data-integrity data-state=${state}>
    <span class=${gaps.length || mismatches.length ? "bad" : ""}>
      ${plural(events, "event")}, ${plural(chunks, "chunk")}, ${gaps.length ? plural(gaps.length, "gap") : "no gap"}${mismatches.length > 0 &&
      `; the stream differed from the history in step ${[...new Set(mismatches)].slice(0, 5).join(", ")}; the history is shown`}
    </span>
    ${task.unknown > 0 && html`<span>${plural(task.unknown, "event")} of a newer release</span>`}
    ${generation && html`<span>generation <code>${generation}</code>${generations > 1 && ` (${generations})`}</span>`}
    <span>${plural(Math.max(0, connections - 1), "reconnect")}</span>
    <span>${check && resultOf(check)}</span>
    <span class="grow"></span><span class="connection ${state}">${STATES[state]}</span>
  </footer>`;
}

/** Return the result of the comparison, in words. */
function resultOf({ busy, problem, steps, restored }) {
  if (busy) return "comparing with the history …";
  if (problem) return `not compared with the history: ${problem.message}`;
  return `equal to the history: ${plural(steps, "step")}${restored ? `, ${number(restored)} restored` : ""}`;
}

/** A banner for each kind of loss, until the reader closes it. */
export function Banners({ task: { resets, integrity: { gaps } }, check }) {
  const count = resets.length + gaps.length;
  const [closed, setClosed] = useState(0);
  const banner = (kind, text) => html`<${Banner} kind=${kind}>
    <${Hostile}>${text}. ${check && `The page is ${resultOf(check)}.`}<//>
    <button class="quiet" aria-label="Close the banner" onClick=${() => setClosed(count)}>✕</button>
  <//>`;
  return count > closed && [
    ...resets.slice(-1).map(({ steps, at }) => banner("reset", `The live log was lost and began again at ${clock(at)}. ${plural(steps, "step")} of the history remained; text of unfinished turns is void`)),
    ...gaps.slice(-1).map(gap => banner("gap", `The stream has a gap: ${gap}`)),
  ];
}
