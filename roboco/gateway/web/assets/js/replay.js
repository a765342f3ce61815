// replay: a slider over the frames of a task. The page shows the state of that moment, and says so.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { dateTime, number } from "./format.js";
import { firstIndex } from "./lanes_layout.js";
import { Past } from "./past.js";

const SPEEDS = [1, 4, 16, 64];

export function Replay({ taskId, frames, version, onReplay }) {
  const past = useMemo(() => new Past(taskId, frames), [taskId, frames]);
  const [place, setPlace] = useState(null); // frames shown; null: live
  const [playing, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(4);
  const held = useRef({}).current;
  const all = frames.length;

  const show = count => {
    const state = count == null ? null : past.state(count);
    Object.assign(held, { count, at: state?.past.at });
    setPlace(count);
    onReplay(state);
  };
  const stop = () => {
    setPlaying(false);
    show(null);
  };
  const move = by => {
    setPlaying(false);
    show(past.step(place, by));
  };
  useEffect(() => {
    if (place != null) stop();
  }, [past]);
  useEffect(() => {
    if (place == null) return undefined;
    let timer = setTimeout(function next() {
      if (past.prepare()) timer = setTimeout(next);
    });
    return () => clearTimeout(timer);
  }, [past, place == null]);
  useEffect(() => {
    if (!playing) return undefined;
    let asked;
    let before = performance.now();
    let time = past.times()[held.count];
    const tick = now => {
      asked = requestAnimationFrame(tick);
      if (now - before < 50) return;
      const times = past.times();
      time += (now - before) * speed;
      before = now;
      const count = Math.max(held.count, firstIndex(times, one => one > time) - 1);
      if (count > held.count) show(count);
      if (count >= frames.length) setPlaying(false);
    };
    asked = requestAnimationFrame(tick);
    return () => cancelAnimationFrame(asked);
  }, [playing, speed, past]);

  if (place == null) {
    return html`<div class="replay"><button type="button" class="quiet" data-action="replay" disabled=${!all} onClick=${() => show(all)}>◷ Replay</button></div>`;
  }
  const play = () => {
    if (place >= all) show(0);
    setPlaying(!playing);
  };
  const says = `${dateTime(held.at)} · ${number(place)} of ${number(all)}`;
  return html`<div class="replay past" role="group" aria-label="Replay" data-replay=${place}>
    <strong role="status">The past</strong>
    <button type="button" aria-label="Previous event" title="Previous event" disabled=${place === 0} onClick=${() => move(-1)}>‹</button>
    <button type="button" aria-label=${playing ? "Pause" : "Play"} title=${playing ? "Pause" : "Play"} onClick=${play}>${playing ? "❚❚" : "▶"}</button>
    <button type="button" aria-label="Next event" title="Next event" disabled=${place >= all} onClick=${() => move(1)}>›</button>
    <button type="button" aria-label=${`Speed ${speed}. Change it.`} onClick=${() => setSpeed(SPEEDS[(SPEEDS.indexOf(speed) + 1) % SPEEDS.length])}>${speed}×</button>
    <input type="range" min="0" max=${all} value=${place} aria-label="Place in the stream" aria-valuetext=${says}
      onInput=${event => [setPlaying(false), show(Number(event.target.value))]} />
    <output>${says}</output>
    <button type="button" class="primary" data-action="live" onClick=${stop}>Back to live</button>
  </div>`;
}
