// past: the states that a task had, folded from its frames. Pure.
//
//   frames ─► fold, a snapshot each EVERY frames ─► state(count): the nearest snapshot and at most EVERY frames more

import { fold, newTask } from "./task_state.js";

const EVERY = 2000;
const LONGEST = 2000; // milliseconds of silence that a replay shows

export class Past {
  constructor(taskId, frames) {
    this.frames = frames;
    this.snapshots = [{ count: 0, at: null, task: newTask(taskId) }];
    this.now = copyOf(this.snapshots[0]);
    this.clock = [0]; // playing time after each frame, in milliseconds
    this.last = null; // {index, at}: the last frame with a time
  }

  /** Make the next snapshot. Return false if there is nothing to do. */
  prepare() {
    const { count } = this.snapshots.at(-1);
    if (this.frames.length < count + EVERY) return false;
    this.state(count + EVERY);
    return true;
  }

  /** Return the state after the first `count` frames. It is valid until the next call. */
  state(count) {
    let base = this.snapshots.length - 1;
    while (this.snapshots[base].count > count) base -= 1;
    if (this.now.count > count || this.snapshots[base].count > this.now.count) this.now = copyOf(this.snapshots[base]);
    const { now } = this;
    while (now.count < count) {
      const frame = this.frames[now.count++];
      fold(now.task, frame);
      now.at = timeOf(frame) ?? now.at;
      if (now.count === this.snapshots.at(-1).count + EVERY) this.snapshots.push(copyOf(now));
    }
    return { ...now.task, past: { at: now.at, count } };
  }

  /** Return the playing times; pieces of text lie evenly between their events. */
  times() {
    const { clock, frames } = this;
    for (let i = clock.length - 1; i < frames.length; i++) {
      const at = timeOf(frames[i]);
      clock.push(clock[i] + (at == null ? 30 : 0));
      if (at == null) continue;
      const start = this.last?.index ?? -1;
      const begun = clock[start + 1];
      const length = this.last ? Math.min(LONGEST + 30 * (i - start - 1), Math.max(0, at - this.last.at)) : 0;
      for (let k = start + 1; k <= i; k++) clock[k + 1] = begun + (length * (k - start)) / (i - start);
      this.last = { index: i, at };
    }
    return clock;
  }

  /** Return the number of frames after the next or previous event. */
  step(count, by) {
    let at = count + by;
    while (at > 0 && at < this.frames.length && this.frames[at - 1].type === "text_part_delta") at += by;
    return Math.min(Math.max(at, 0), this.frames.length);
  }
}

export const timeOf = ({ data }) => {
  const time = data.timestamp ?? data.step?.created_at;
  return time ? Date.parse(time) : null;
};

/** Copy a state. Committed turns and calls with a committed result no longer change: they are shared. */
function copyOf({ count, at, task }) {
  const made = { ...task, used: { ...task.used }, integrity: { ...task.integrity, gaps: [...task.integrity.gaps], mismatches: [...task.integrity.mismatches] } };
  for (const [name, value] of Object.entries(task)) {
    if (Array.isArray(value)) made[name] = value.slice();
    else if (value instanceof Map) made[name] = new Map(value);
  }
  for (const [id, turn] of made.turns) {
    if (!turn.committed) made.turns.set(id, { ...turn, calls: [...turn.calls], voids: [...turn.voids], restarts: [...turn.restarts] });
  }
  made.open = new Set([...task.open].map(turn => made.turns.get(turn.stepId)));
  for (const [id, call] of made.calls) if (call.resultSeq === undefined) made.calls.set(id, { ...call });
  return { count, at, task: made };
}
