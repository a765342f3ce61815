// replay: a slider over the frames of a task. The page shows the state of that moment, and says so.

import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import { dateTime, number } from "./format.js";
import { firstIndex } from "./lanes_layout.js";
import { fold, newTask } from "./task_state.js";

const EVERY = 2000; // frames between two snapshots
const SILENCE = 2000; // milliseconds, the longest that a replay shows
const SPEEDS = [1, 4, 16, 64];
const TICK = 50; // milliseconds

/** The states that a task had: the nearest snapshot, and at most EVERY frames folded into a copy of it. */
export class Past {
  clock = [0]; // playing time after each frame, in milliseconds
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

  /** Return the playing times. */
  times() {
    const { clock, frames } = this;
    for (let i = clock.length - 1; i < frames.length; i++) {
      const at = timeOf(frames[i]) || this.last + 30; // a piece of text has no time
      clock.push(clock[i] + Math.min(SILENCE, Math.max(0, at - this.last)));
      this.last = at;
    }
    return clock;
  }

  /** Return the number of frames after the next or previous event. */
  step(count, by) {
    do count += by;
    while (this.frames[count - 1]?.type === "text_part_delta");
    return Math.min(Math.max(count, 0), this.frames.length);
  }
}

const timeOf = ({ data }) => Date.parse(data.timestamp ?? data.step?.created_at);

/** Copy a state. What no longer changes is shared: committed turns, and calls with a committed result. */
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
  const [playing, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(4);
  const all = frames.length;
  const place = state?.past.count;

  const show = (count, plays = false) => {
    const found = count == null ? null : past.state(count);
    setPlaying(plays);
    setState(found);
    onReplay(found);
  };
  useEffect(() => {
    if (state) show(null);
  }, [past]);
  useEffect(() => {
    if (!playing) return undefined;
    let time = past.times()[place];
    const timer = setInterval(() => {
      time += TICK * speed;
      const count = firstIndex(past.times(), at => at > time) - 1;
      show(count, count < frames.length);
    }, TICK);
    return () => clearInterval(timer);
  }, [playing, speed, past]);

  if (!state) {
    return html`<div class="replay"><button class="quiet" data-action="replay" disabled=${!all} onClick=${() => show(all)}>◷ Replay</button></div>`;
  }
  const says = `${dateTime(state.past.at)} · ${number(place)} of ${number(all)}`;
  const tool = (label, name, run, disabled) => html`<button aria-label=${name} title=${name} disabled=${disabled} onClick=${run}>${label}</button>`;
  return html`<div class="replay past" role="group" aria-label="Replay" data-replay=${place}>
    <strong role="status">The past</strong>
    ${tool("‹", "Previous event", () => show(past.step(place, -1)), !place)}
    ${playing ? tool("❚❚", "Pause", () => setPlaying(false)) : tool("▶", "Play", () => show(place < all ? place : 0, true))}
    ${tool("›", "Next event", () => show(past.step(place, 1)), place >= all)}
    ${tool(`${speed}×`, `Speed ${speed}. Change it.`, () => setSpeed(SPEEDS[(SPEEDS.indexOf(speed) + 1) % SPEEDS.length]))}
    <input type="range" max=${all} value=${place} aria-label="Place in the stream" aria-valuetext=${says} onInput=${event => show(Number(event.target.value))} />
    <output>${says}</output>
    <button class="primary" data-action="live" onClick=${() => show(null)}>Back to live</button>
  </div>`;
}
