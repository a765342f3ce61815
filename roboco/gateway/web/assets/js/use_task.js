// use_task: a task that follows its stream. After a reset, a gap and its end it is compared with the history.

import { useEffect, useRef } from "../vendor/preact.js";
import { request, taskPath } from "./api.js";
import { causeOf, reconcile } from "./integrity.js";
import { follow } from "./streams.js";
import { fold, newTask } from "./task_state.js";
import { useFrame, useLoad } from "./ui.js";

const SETTLE = 300; // milliseconds: causes may come together
const AGAIN = 5000;

const empty = taskId => ({ task: newTask(taskId), frames: [], connection: { state: "connecting", connections: 0 }, check: null });

/** `task` and `frames` are changed in place, and `version` grows. `check` is {steps, restored}, {busy} or {problem}. */
export function useTask(taskId) {
  const held = useRef(null);
  const [version, changed] = useFrame();
  if (held.current?.task.taskId !== taskId) held.current = empty(taskId);
  const { data: summary, problem, reload } = useLoad(() => request(taskPath(taskId)), [taskId]);
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

  const { task, frames, connection, check, refused } = held.current;
  const cause = causeOf(task);
  useEffect(() => {
    if (!cause) return undefined;
    let timer = setTimeout(compare, SETTLE);
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
  }, [cause, task]);
  return { task, frames, version, summary, connection, check, problem: problem ?? refused, reload };
}
