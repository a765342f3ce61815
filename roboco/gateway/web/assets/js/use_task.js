// use_task: a task that follows its stream, and what the page knows of the completeness of that stream.
//
//   reset, gap, end ─► the newest step: its digest covers all before it ─► equal: only newer steps are read, else all of them

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { request, taskPath } from "./api.js";
import { clock, plural } from "./format.js";
import { follow } from "./streams.js";
import { addStep, fold, newTask } from "./task_state.js";
import { Banner, useFrame, useLoad } from "./ui.js";

const SETTLE = 300; // milliseconds: causes may come together
const AGAIN = 5000;
const RECHECK = 15_000; // a task that does not go on sends nothing: its summary has the cause
const STATES = { connecting: "connecting …", live: "live", lost: "connection lost, trying again …", ended: "complete", refused: "refused" };

const empty = taskId => ({ task: newTask(taskId), frames: [], connection: { state: "connecting", connections: 0 }, check: null });

/** `task` and `frames` are changed in place. `check` is {steps, restored}, {busy} or {problem}. */
export function useTask(taskId) {
  const held = useRef();
  const [, changed] = useFrame();
  held.current ??= empty(taskId);
  const { data: summary, problem, reload } = useLoad(() => request(taskPath(taskId)), []);
  const known = summary?.task_id;

  useEffect(() => known && follow("task", known, ({ all, frames, problem: refused, ...connection }) => {
    if (all) held.current = empty(taskId);
    Object.assign(held.current, { connection, refused });
    for (const frame of frames) {
      held.current.frames.push(frame);
      fold(held.current.task, frame);
    }
    changed();
  }), [known]);

  const { task, refused, ...rest } = held.current;
  const running = task.status === "running";
  useEffect(() => {
    const timer = running && setInterval(reload, RECHECK);
    return () => clearInterval(timer);
  }, [running]);
  const { resets, endedAt, integrity: { gaps, mismatches } } = task;
  const causes = [resets.length, gaps.length, mismatches.length, Number(endedAt > 0)];
  useEffect(() => {
    let timer = causes.some(Boolean) && setTimeout(compare, SETTLE);
    async function compare() {
      held.current.check = { busy: true };
      changed();
      const found = await reconcile(task).catch(failure => ({ problem: failure }));
      if (!timer) return;
      held.current.check = found;
      if (found.problem) timer = setTimeout(compare, AGAIN);
      changed();
    }
    return () => {
      clearTimeout(timer);
      timer = 0;
    };
  }, [...causes, task]);
  return { ...rest, task, summary, problem: problem ?? refused, reload };
}

/** Compare the task with its history. Return {steps, restored}: the steps of the history, and how many the page lacked. */
async function reconcile(task, first = newest(task.steps)) {
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

export function Integrity({ task: { integrity }, connection: { connections, state }, check }) {
  const { events, chunks, generation, gaps, mismatches } = integrity;
  return html`<footer class="integrity row dim" data-integrity data-state=${state}>
    <span class=${gaps.length || mismatches.length ? "bad" : ""}>${plural(events, "event")}, ${plural(chunks, "chunk")}, ${gaps.length ? plural(gaps.length, "gap") : "no gap"}<//>
    ${mismatches.length > 0 && html`<span class="bad">the stream differed from the history in step ${[...new Set(mismatches)].slice(0, 5).join(", ")}; the history is shown<//>`}
    ${generation && html`<span>generation <code>${generation}<//><//>`}
    <span>${plural(Math.max(0, connections - 1), "reconnect")}<//>
    <span class="grow">${check && resultOf(check)}<//> <span class=${state}>${STATES[state]}<//>
  <//>`;
}

function resultOf({ busy, problem, steps, restored }) {
  if (busy) return "comparing with the history …";
  if (problem) return `not compared with the history: ${problem.message}`;
  return `equal to the history: ${plural(steps, "step")}${restored ? `, ${restored} restored` : ""}`;
}

export function Banners({ task: { resets, integrity: { gaps } }, check }) {
  const count = resets.length + gaps.length;
  const [closed, setClosed] = useState(0);
  const banner = (kind, text) => html`<${Banner} kind=${kind}><bdi>${text}. ${check && `The page is ${resultOf(check)}.`}<//> <button class="quiet" aria-label="Close the banner" onClick=${() => setClosed(count)}>✕<//><//>`;
  return count > closed && [
    ...resets.slice(-1).map(({ steps, at }) => banner("reset", `The live log was lost and began again at ${clock(at)}. ${plural(steps, "step")} of the history remained; text of unfinished turns is void`)),
    ...gaps.slice(-1).map(gap => banner("gap", `The stream has a gap: ${gap}`)),
  ];
}
