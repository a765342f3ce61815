// reconcile: the comparison of a task, as its stream told it, with its history.
//
//   reset, gap, lost events, end ─► the newest step that the page has: its digest covers all before it
//        equal, and each step follows the one before ─► only newer steps are added
//        else ─► the whole history, page by page; a step that differs replaces that of the page

import { request, taskPath } from "./api.js";
import { addStep } from "./task_state.js";

const PAGE = 200; // steps

/** Return why the task must be compared now, or "". Each cause has another value. */
export function causeOf(task) {
  const { gaps, mismatches } = task.integrity;
  const causes = [task.resets.length, gaps.length, mismatches.length, task.endedAt ? 1 : 0];
  return causes.some(Boolean) ? causes.join() : "";
}

/** Compare the task with its history. Return {steps, restored}: the steps of the history, and how many the page lacked. */
export async function reconcile(task) {
  const last = firstBreak(task.steps) - 1;
  let restored = 0;
  let start = Math.max(0, last);
  while (start != null) {
    const page = await request(`${taskPath(task.taskId, "history")}?start=${start}&limit=${PAGE}`);
    if (start === last && page.steps[0]?.digest !== task.steps[last].digest && last > 0) {
      start = 0;
      continue;
    }
    for (const step of page.steps) {
      const mine = task.steps[step.seq];
      if (mine?.digest === step.digest) continue;
      restored += 1;
      addStep(task, step);
    }
    start = page.next;
  }
  return { steps: task.steps.length, restored };
}

/** Return the first position that has no step, or one that does not follow the step before. */
function firstBreak(steps) {
  let seq = 0;
  while (seq < steps.length && steps[seq] && steps[seq].prev_digest === (steps[seq - 1]?.digest ?? "")) seq += 1;
  return seq;
}
