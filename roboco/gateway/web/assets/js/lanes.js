// lanes: who worked when, on a time axis that scrolls. Only visible bars are elements, and short neighbours are one.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { clock, duration, statusName } from "./format.js";
import { ROW, firstIndex, layOut, newScale, spans, ticks } from "./lanes_layout.js";
import { coloured, useClock, useFrame } from "./ui.js";

const HEAD = 110; // pixels of the name of a lane
const AXIS = 20;
const KEYS = "Steps of the task. Arrows: the steps in time, and the lanes. Enter: open. Plus, minus and 0: zoom.";

export function Lanes({ task, selected, onSelect }) {
  const box = useRef();
  const held = useRef({}).current;
  const [, changed] = useFrame();
  const [zoom, setZoom] = useState(0); // pixels for a millisecond; the task always fills the width
  const [active, setActive] = useState(null);
  const live = !task.endedAt && !task.past;
  const present = useClock(live ? 200 : 0);
  const layout = (held.layout = layOut(task, held.layout));
  const { bars, lanes, waits, start, end } = layout;
  const now = Math.max(end, task.past?.at ?? (live ? present : 0));
  const scale = newScale(layout, now);
  const { scrollLeft: left = 0, clientWidth: width = 900 } = box.current ?? {};
  const total = scale.units(now) * 1.01 || 1;
  const rate = Math.max(zoom, (width - HEAD) / total);
  const x = at => HEAD + scale.units(Math.min(at, now)) * rate;
  const axis = { x, time: place => scale.time((place - HEAD) / rate) };
  const chosen = selected == null ? null : bars.find(bar => bar.seq === selected);
  const current = bars.find(bar => bar.id === active) ?? chosen ?? bars.at(-1);

  const enlarge = factor => {
    held.left = (left + width / 2) * factor - width / 2;
    setZoom(Math.min(rate * factor, 0.5, 4e5 / total));
  };
  const show = bar => {
    if (!bar) return;
    if (x(bar.from) > left + width - 20 || x(bar.to) < left + HEAD) held.left = x(bar.from) - width / 3;
    setActive(bar.id);
    changed();
  };
  const go = bar => show((held.focus = bar));
  const cross = by => {
    const rows = lanes.flatMap(lane => lane.rows);
    const row = rows[rows.indexOf(current.lane.rows[current.row]) + by];
    go(row?.[firstIndex(row, bar => bar.to >= current.from)] ?? row?.at(-1));
  };
  const run = {
    ArrowRight: () => go(bars[bars.indexOf(current) + 1]), ArrowLeft: () => go(bars[bars.indexOf(current) - 1]), Home: () => go(bars[0]),
    End: () => go(bars.at(-1)), ArrowDown: () => cross(1), ArrowUp: () => cross(-1), "+": () => enlarge(1.5), "-": () => enlarge(1 / 1.5), 0: () => setZoom(0),
  };
  const pressed = event => {
    if (!run[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    run[event.key]();
    event.preventDefault();
  };

  useEffect(() => show(chosen), [chosen?.id]);
  useEffect(() => {
    const sized = new ResizeObserver(changed);
    sized.observe(box.current);
    return () => sized.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (held.left != null || held.atEnd) box.current.scrollLeft = held.left ?? 1e9;
    const button = held.focus && box.current.querySelector(`[tabindex="0"]`);
    button?.focus();
    held.left = null;
    if (button) held.focus = null;
  });

  const plot = useMemo(() => {
    /** Something at a time, if it is visible. */
    const mark = (kind, from, to, text, style) => {
      const [x0, x1] = [x(from), x(to)];
      return x1 >= left && x0 <= left + width && html`<i class=${kind} title=${text} style=${{ left: `${x0}px`, width: `${x1 - x0}px`, ...style }}>${(x1 - x0 > 30 || kind === "tick") && text}</i>`;
    };
    const button = ({ bar, bar: { says = (bar.says = describe(bar)) }, x0, x1, count }) => html`<button key=${bar.id} class=${bar.state} data-bar=${bar.id} data-turn=${bar.seq}
      tabindex=${bar.id === current.id ? 0 : -1} aria-current=${bar.seq != null && bar.seq === selected ? "step" : null} aria-label=${says} title=${says}
      style=${{ left: `${x0}px`, width: `${x1 - x0}px`, top: `${4 + bar.row * ROW}px`, "--begin": `${count > 1 ? 0 : x(bar.begin) - x0}px`, "--token": `${count > 1 ? 0 : x(bar.token) - x0}px` }}
      onClick=${() => [setActive(bar.id), bar.seq != null && onSelect(bar.seq)]}>${x1 - x0 > 24 && bar.text}</button>`;
    let last = 0;
    const arrows = task.handoffs.slice(firstIndex(task.handoffs, one => one.at >= axis.time(left))).map(({ from, to, at }) => {
      const [above, below] = [from, to].map(name => AXIS + 13 + lanes.find(lane => lane.kind === "agent" && lane.name === name)?.y);
      if (x(at) < last + 12 || !(above - below)) return null;
      last = x(at);
      return mark(above < below ? "arrow" : "arrow up", at, at, null, { top: `${Math.min(above, below)}px`, height: `${Math.abs(above - below)}px` });
    });
    return html`<div class="lanes-all" style=${{ width: `${HEAD + total * rate}px` }}>
      <div class="lanes-axis">
        ${scale.breaks.map(({ from, to }) => mark("break", from, to))} ${ticks(axis, start, left + HEAD, left + width).map(({ at, text }) => mark("tick", at, at, text))}
      </div>
      ${lanes.map(lane => html`<div key=${lane.kind + lane.taskId + lane.name} data-lane=${lane.name} ...${coloured(task, lane.kind === "agent" && lane.name, "lane")}>
        <div class="lane-head" style=${{ height: `${lane.height}px` }} title=${lane.name}><bdi>
          ${lane.taskId ? html`<a href=${`#/tasks/${encodeURIComponent(lane.taskId)}`}>↳ ${lane.name}</a>` : lane.name}
        </bdi></div>
        ${lane.rows.map(row => spans(row, axis, left, left + width, current.id).map(button))}
      </div>`)}
      ${waits.map(({ status, from, to }) => mark(`wait ${status}`, from, to, `${statusName(status)} · ${duration(Math.min(to, now) - from)}`))}
      ${arrows}
      ${layout.marks.map(({ from, to, text }) => mark("mark", from, to, text))}
      ${live && mark("now", now, now)}
    </div>`;
  }, [bars, bars.length, task.integrity.events, now, left, width, zoom, current?.id, selected]);
  const tool = (label, name, key) => html`<button class="quiet" title=${name} aria-label=${name} onClick=${run[key]}>${label}</button>`;
  return html`<section class="lanes" aria-label="Lanes">
    <div class="lanes-tools">
      ${tool("−", "Zoom out", "-")} ${tool("+", "Zoom in", "+")} ${tool("Fit", "Show all", 0)}
      <span class="hostile dim" dir="auto">${current && describe(current)}</span>
    </div>
    <div class="lanes-box" tabindex="0" role="group" aria-label=${KEYS} ref=${box} onKeyDown=${pressed} onScroll=${({ target }) => {
      held.atEnd = target.scrollLeft + target.clientWidth > target.scrollWidth - 3;
      changed();
    }}>${plot}</div>
  </section>`;
}

/** Return what a bar says. */
const describe = ({ lane, seq, state, from, begin, token, to, facts }) => [
  `${lane.name}${seq == null ? "" : ` · step ${seq}`}`,
  clock(from),
  to === Infinity ? "not done" : duration(to - from),
  begin === Infinity ? statusName("approval") : begin - from > 100 && `${duration(begin - from)} before it began`,
  token > begin && token < to && `first token after ${duration(token - begin)}`,
  state,
  ...facts,
].filter(Boolean).join(", ");
