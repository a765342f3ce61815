// replay: a slider over the frames of a task. The page shows the state of that moment, and says so.

import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import { dateTime, number } from "./format.js";
import { fold, newTask } from "./task_state.js";

const EVERY = 2000; // frames between two snapshots
const TICK = 50; // milliseconds
const TICKS = 400; // of playing a whole task: 20 seconds

/** The states that a task had: the nearest snapshot, and at most EVERY frames folded into a copy of it. */
export class Past {
  constructor(taskId, frames) {
    this.frames = frames;
    this.snapshots = [{ count: 0, at: 0, task: newTask(taskId) }];
  }

  /** Return the state after the first `count` frames. It is valid until the next call. */
  state(count) {
    const { frames, snapshots } = this;
    const base = snapshots.findLast(one => one.count <= count);
    if (!(this.now?.count <= count && this.now.count >= base.count)) this.now = copyOf(base);
    const { now } = this;
    while (now.count < count) {
      const frame = frames[now.count++];
      fold(now.task, frame);
      now.at = Date.parse(frame.data.timestamp ?? frame.data.step?.created_at) || now.at; // a piece of text has no time
      if (now.count === snapshots.at(-1).count + EVERY) snapshots.push(copyOf(now));
    }
    return { ...now.task, past: { at: now.at, count } };
  }
}

/** Copy a state. Committed turns, and calls with a committed result, no longer change: they are shared. */
function copyOf({ task, ...place }) {
  const made = {};
  for (const [name, value] of Object.entries(task)) {
    made[name] = Array.isArray(value) ? value.slice() : value instanceof Map ? new Map(value) : structuredClone(value);
  }
  for (const turn of made.open) made.turns.set(turn.stepId, turn);
  for (const [id, call] of made.calls) if (call.resultSeq == null) made.calls.set(id, { ...call });
  return { ...place, task: made };
}

export function Replay({ taskId, frames, onReplay }) {
  const past = useMemo(() => new Past(taskId, frames), [taskId, frames]);
  const [state, setState] = useState(null); // null: live
  const [playing, play] = useState(false);
  const all = frames.length;
  const { count, at } = state?.past ?? {};

  const show = (next, plays = false) => {
    const found = next == null ? null : past.state(Math.min(next, all));
    play(plays && next < all);
    setState(found);
    onReplay(found);
  };
  useEffect(() => state && show(null), [past]);
  useEffect(() => {
    const timer = playing && setTimeout(show, TICK, count + Math.ceil(all / TICKS), true);
    return () => clearTimeout(timer);
  }, [playing, state]);

  if (!state) return html`<div class="replay"><button class="quiet" data-action="replay" disabled=${!all} onClick=${() => show(all)}>◷ Replay<//><//>`;
  const says = `${dateTime(at)} · ${number(count)} of ${number(all)}`;
  return html`<div class="replay past" role="group" aria-label="Replay" data-replay=${count}>
    <strong role="status">The past<//>
    <button aria-label=${playing ? "Pause" : "Play"} onClick=${() => show(count < all ? count : 0, !playing)}>${playing ? "❚❚" : "▶"}<//>
    <input type="range" max=${all} value=${count} aria-label="Place in the stream" aria-valuetext=${says} onInput=${event => show(Number(event.target.value))} />
    <output>${says}<//>
    <button class="primary" data-action="live" onClick=${() => show(null)}>Back to live<//>
  <//>`;
}
