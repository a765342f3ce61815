// replay: a slider over the frames of a task. The page shows the state of that moment, and says so.

import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import { dateTime, number } from "./format.js";
import { firstIndex } from "./lanes_layout.js";
import { fold, newTask } from "./task_state.js";

const EVERY = 2000; // frames between two snapshots
const SILENCE = 2000; // milliseconds
const TICK = 50;

/** The states that a task had: the nearest snapshot, and at most EVERY frames folded into a copy of it. */
export class Past {
  clock = [0]; // playing time after each frame: a silence is at most SILENCE
  last = 0;

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
      now.at = timeOf(frame) || now.at;
      if (now.count === snapshots.at(-1).count + EVERY) snapshots.push(copyOf(now));
    }
    return { ...now.task, past: { at: now.at, count } };
  }

  times() {
    const { clock, frames } = this;
    while (clock.length <= frames.length) {
      const at = timeOf(frames[clock.length - 1]) || this.last + 30; // a piece of text has no time
      clock.push(clock.at(-1) + Math.min(SILENCE, Math.max(0, at - this.last)));
      this.last = at;
    }
    return clock;
  }

  /** Return the number of frames after the next or previous event. */
  step(count, by) {
    do count += by;
    while (this.frames[count - 1]?.type === "text_part_delta");
    return count;
  }
}

const timeOf = ({ data }) => Date.parse(data.timestamp ?? data.step?.created_at);

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
  const [speed, setSpeed] = useState(4);
  const [playing, setPlaying] = useState(false);
  const all = frames.length;
  const { count, at } = state?.past ?? {};

  const show = (next, plays = false) => {
    const found = next == null ? null : past.state(next);
    setPlaying(plays);
    setState(found);
    onReplay(found);
  };
  useEffect(() => state && show(null), [past]);
  useEffect(() => {
    if (!playing) return undefined;
    let time = past.times()[count];
    const timer = setInterval(() => {
      time += TICK * speed;
      const next = firstIndex(past.times(), one => one > time) - 1;
      show(next, next < frames.length);
    }, TICK);
    return () => clearInterval(timer);
  }, [playing, speed, past]);

  if (!state) return html`<div class="replay"><button class="quiet" data-action="replay" disabled=${!all} onClick=${() => show(all)}>◷ Replay</button></div>`;
  const says = `${dateTime(at)} · ${number(count)} of ${number(all)}`;
  const tool = (label, name, run, disabled) => html`<button aria-label=${name} title=${name} disabled=${disabled} onClick=${run}>${label}</button>`;
  return html`<div class="replay past" role="group" aria-label="Replay" data-replay=${count}>
    <strong role="status">The past</strong>
    ${tool("‹", "Previous event", () => show(past.step(count, -1)), !count)}
    ${playing ? tool("❚❚", "Pause", () => setPlaying(false)) : tool("▶", "Play", () => show(count < all ? count : 0, true))}
    ${tool("›", "Next event", () => show(past.step(count, 1)), count >= all)}
    ${tool(`${speed}×`, `Speed ${speed}. Change it.`, () => setSpeed(speed < 64 ? speed * 4 : 1))}
    <input type="range" max=${all} value=${count} aria-label="Place in the stream" aria-valuetext=${says} onInput=${event => show(Number(event.target.value))} />
    <output>${says}</output>
    <button class="primary" data-action="live" onClick=${() => show(null)}>Back to live</button>
  </div>`;
}
