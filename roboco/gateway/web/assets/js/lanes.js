// lanes: who worked when, on a time axis that scrolls. Only bars near the visible part are elements, and short neighbours are one.
//
// The box is one stop of the Tab key. Arrows go from bar to bar, also to those that are no elements yet.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { clock, duration, statusName } from "./format.js";
import { ROW, firstIndex, layOut, neighbour, newScale, spans, ticks } from "./lanes_layout.js";
import { addressOf, coloured, useClock, useFrame } from "./ui.js";

const HEAD = 110; // pixels of the names of lanes
const AXIS = 20;
const PART = 500; // pixels of scrolling for which the same bars are drawn

export function Lanes({ task, selected, onSelect }) {
  const box = useRef();
  const held = useRef({}).current;
  const [, changed] = useFrame();
  const [zoom, setZoom] = useState(0); // pixels for a millisecond; the task always fills the width
  const live = !task.endedAt && !task.past;
  const present = useClock(live ? 200 : 0);
  const layout = (held.layout = layOut(task, held.layout));
  const { bars, lanes, waits, start, end } = layout;
  const now = Math.max(end, task.past?.at ?? (live ? present : 0));
  const scale = newScale(layout, now);
  const { scrollLeft = 0, clientWidth: width = 900 } = box.current ?? {};
  const part = (held.part = Math.floor(scrollLeft / PART));
  const left = part * PART;
  const right = left + width + PART;
  const total = scale.units(now) * 1.01 || 1;
  const rate = Math.max(zoom, (width - HEAD) / total);
  const x = at => HEAD + scale.units(Math.min(at, now)) * rate;
  const axis = { x, time: place => scale.time((place - HEAD) / rate) };
  const chosen = bars.find(bar => bar.seq === selected);

  const enlarge = factor => {
    held.left = (scrollLeft + width / 2) * factor - width / 2;
    setZoom(Math.min(rate * factor, 0.5, 4e5 / total));
  };
  const current = bars.find(bar => bar.id === held.current) ?? chosen;
  const goTo = bar => {
    held.current = bar.id;
    if (x(bar.from) > scrollLeft + width - 20 || x(bar.to) < scrollLeft + HEAD) held.left = x(bar.from) - width / 3;
    changed();
  };
  const pressed = event => {
    if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    const near = current ?? bars.find(bar => x(bar.to) >= scrollLeft + HEAD);
    const next = near && event.target.closest(".lane button") ? neighbour(layout, near, event.key) : near;
    held.focus = Boolean(next);
    if (next) goTo(next);
  };
  useEffect(() => chosen && goTo(chosen), [chosen?.id]);
  useEffect(() => {
    const sized = new ResizeObserver(changed);
    sized.observe(box.current);
    return () => sized.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (held.left != null || held.atEnd) box.current.scrollLeft = held.left ?? 1e9;
    held.left = null;
    const bar = held.focus ? box.current.querySelector("[data-current]") : null;
    held.focus &&= !bar; // its element may come with the next frame
    bar?.focus({ preventScroll: true });
  });

  const plot = useMemo(() => {
    const mark = (kind, from, to, text, style) => {
      const wide = x(to) - x(from);
      return x(to) >= left && x(from) <= right && html`<i class=${kind} title=${text} style=${{ left: x(from), width: wide, ...style }}>${(wide > 30 || kind === "tick") && text}<//>`;
    };
    const button = ({ bar, x0, x1, count }) => {
      const [begin, token] = [bar.begin, bar.token].map(at => `${count > 1 ? 0 : x(at) - x0}px`);
      return html`<button key=${bar.id} class=${bar.state} data-turn=${bar.seq} tabindex="-1" title=${(bar.says ??= describe(bar))} aria-current=${bar === chosen ? "step" : null}
        data-current=${bar === current || null} onFocus=${() => (held.current = bar.id)} onClick=${() => bar.seq != null && onSelect(bar.seq)} style=${{ left: x0, width: x1 - x0, top: 4 + bar.row * ROW, "--begin": begin, "--token": token }}>${x1 - x0 > 24 && bar.text}<//>`;
    };
    let last = 0;
    const arrows = task.handoffs.slice(firstIndex(task.handoffs, one => one.at >= axis.time(left))).map(({ from, to, at }) => {
      const [above, below] = [from, to].map(name => AXIS + 13 + lanes.find(lane => lane.kind === "agent" && lane.name === name)?.y);
      if (x(at) < last + 12 || !(above - below)) return null;
      last = x(at);
      return mark(above < below ? "arrow" : "arrow up", at, at, null, { top: Math.min(above, below), height: Math.abs(above - below) });
    });
    return html`<div class="lanes-all" style=${{ width: HEAD + total * rate }}>
      <div class="lanes-axis">
        ${scale.breaks.map(({ from, to }) => mark("break", from, to))} ${ticks(axis, start, left + HEAD, right - 70).map(({ at, text }) => mark("tick", at, at, text))}
      <//>
      ${lanes.map(({ kind, name, taskId, rows, height }) => html`<div key=${kind + taskId + name} data-lane=${name} ...${coloured(task, kind === "agent" && name, "lane")}>
        <div class="lane-head" style=${{ height }} title=${name}><bdi>${taskId ? html`<a href=${addressOf(taskId)}>↳ ${name}<//>` : name}<//><//>
        ${rows.map(row => spans(row, axis, left, right, [chosen?.id, current?.id]).map(button))}
      <//>`)}
      ${waits.map(({ status, from, to }) => mark(`wait ${status}`, from, to, `${statusName(status)} · ${duration(Math.min(to, now) - from)}`))}
      ${arrows} ${live && mark("now", now, now)}
    <//>`;
  }, [bars, bars.length, task.integrity.events, now, part, width, zoom, chosen, current]);
  const tool = (label, name, run) => html`<button class="quiet" title=${name} aria-label=${name} onClick=${run}>${label}<//>`;
  return html`<section class="lanes" aria-label="Lanes">
    <div class="lanes-tools">
      ${tool("−", "Zoom out", () => enlarge(1 / 1.5))} ${tool("+", "Zoom in", () => enlarge(1.5))} ${tool("Fit", "Show all", () => setZoom(0))}
      <bdi class="dim">${current && describe(current)}<//>
    <//>
    <div class="lanes-box" tabindex="0" role="group" aria-label="Who worked when: arrows go from bar to bar" ref=${box} onKeyDown=${pressed} onScroll=${({ target }) => {
      held.atEnd = target.scrollLeft + width > target.scrollWidth - 3;
      if (Math.floor(target.scrollLeft / PART) !== held.part || held.focus) changed();
    }}>${plot}<//>
  <//>`;
}

const describe = ({ lane, text, state, from, begin, token, to, reason }) => [
  `${lane.name} ${text}`,
  clock(from),
  to < Infinity ? duration(to - from) : "not done",
  begin < Infinity && begin - from > 100 && `${duration(begin - from)} before it began`,
  token > begin && token < to && `first token after ${duration(token - begin)}`,
  state,
  reason,
].filter(Boolean).join(", ");
