// lanes: who worked when, on a time axis. A canvas draws; at most MOST buttons lie on it for the keyboard and screen readers.
//
//   task ─► layOut (at each event) ─► scale, rows ─► draw (at most once a frame: pan, zoom, growing bars)

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { clock, duration, number, statusName } from "./format.js";
import { barAt, clampView, firstIndex, layOut, newScale, placeBars } from "./lanes_layout.js";
import { AXIS, drawBars, drawTop, laneTops } from "./lanes_draw.js";
import { textOf } from "./task_state.js";

const MOST = 60; // buttons
const KEYS = "Left and right: the steps in time. Up and down: the lanes. Enter: open. Shift with left or right: move the window. Plus and minus: zoom. 0: fit.";

export function Lanes({ task, version, selected, onSelect }) {
  const box = useRef();
  const top = useRef();
  const body = useRef();
  const held = useRef({ view: null, follow: true }).current; // view null: all
  const [compress, setCompress] = useState(true);
  const [, render] = useState(0);
  const [tip, setTip] = useState(null);
  const [active, setActive] = useState(null);
  const { generation, events } = task.integrity;
  const layout = useMemo(() => layOut(task), [task.steps, task.calls, generation, events, task.steps.length]);
  const scale = useMemo(() => {
    const made = newScale(layout, compress);
    placeBars(layout.bars, made);
    return made;
  }, [layout, compress]);
  const tops = useMemo(() => laneTops(layout.lanes), [layout]);
  const now = () => (layout.live ? Math.max(layout.end, task.past?.at ?? Date.now()) : layout.end);

  held.draw = () => {
    held.asked = 0;
    const width = body.current?.clientWidth;
    if (!width) return;
    const time = now();
    scale.grow(time);
    const units = Math.max(scale.units(time), 1);
    const { view } = held;
    if (!view || view.to - view.from >= units) held.view = null;
    else if (held.follow && layout.live && !task.past) held.view = clampView(units - (view.to - view.from), view.to - view.from, units);
    const shown = { view: held.view ?? { from: 0, to: units * 1.01 }, width, now: time, units, layout, scale, tops, selected, task };
    held.shown = shown;
    drawTop(top.current, shown);
    drawBars(body.current, shown);
  };
  held.ask = () => (held.asked ||= requestAnimationFrame(() => held.draw()));
  /** Show a window; the buttons follow when it rests. */
  const show = (from, length) => {
    const { units } = held.shown;
    held.view = length >= units ? null : clampView(from, length, units);
    held.follow = !held.view || held.view.to >= units * 0.999;
    held.ask();
    clearTimeout(held.rest);
    held.rest = setTimeout(() => render(count => count + 1), 120);
  };
  const zoom = (factor, x) => {
    const { view, width } = held.shown;
    const length = (view.to - view.from) / factor;
    const at = (x ?? width / 2) / width;
    show(view.from + (view.to - view.from - length) * at, length);
  };
  const pan = pixels => {
    const { view, width } = held.shown;
    if (held.view) show(view.from + (pixels / width) * (view.to - view.from), view.to - view.from);
  };
  /** Bring a bar into the window. */
  const reveal = bar => {
    const { view } = held.shown;
    if (held.view && (bar.u0 > view.to || Math.min(bar.u3, view.to) < view.from)) show(bar.u0 - (view.to - view.from) / 3, view.to - view.from);
    const y = tops.of.get(bar.lane) + AXIS;
    if (y < box.current.scrollTop + AXIS || y > box.current.scrollTop + box.current.clientHeight - 24) box.current.scrollTop = y - AXIS - 24;
  };
  const find = event => {
    const { left, top: above } = body.current.getBoundingClientRect();
    const { view, width } = held.shown;
    const units = view.from + ((event.clientX - left) / width) * (view.to - view.from);
    const row = tops.rows[firstIndex(tops.rows, one => one.y > event.clientY - above) - 1];
    return row ? barAt(row.bars, units, (4 / width) * (view.to - view.from)) : null;
  };
  const select = bar => bar?.seq != null && onSelect(bar.seq);
  const walk = bar => {
    if (!bar) return;
    reveal(bar);
    setActive(bar.id);
    held.focus = bar.id;
  };

  useEffect(() => held.draw());
  useEffect(() => {
    if (held.focus) box.current.querySelector(`[data-bar="${CSS.escape(held.focus)}"]`)?.focus({ preventScroll: true });
    held.focus = null;
  });
  useEffect(() => {
    const bar = selected != null && layout.bars.find(one => one.seq === selected);
    if (bar && held.shown) reveal(bar);
  }, [selected]);
  useEffect(() => {
    const wheel = event => {
      if (event.ctrlKey || event.metaKey) zoom(Math.exp(-event.deltaY / 300), event.clientX - body.current.getBoundingClientRect().left);
      else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX || event.deltaY);
      else return;
      event.preventDefault();
    };
    const element = box.current;
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  });
  useEffect(() => {
    const sized = new ResizeObserver(() => render(count => count + 1));
    const colours = matchMedia("(prefers-color-scheme: dark)");
    const themed = new MutationObserver(held.ask);
    sized.observe(body.current);
    colours.addEventListener("change", held.ask);
    themed.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => [sized.disconnect(), themed.disconnect(), colours.removeEventListener("change", held.ask)];
  }, []);
  useEffect(() => {
    if (!layout.live || task.past) return undefined;
    let timer;
    const grow = () => {
      if (!document.hidden) held.ask();
      const { view, width } = held.shown ?? { view: { from: 0, to: 1000 }, width: 1000 };
      timer = setTimeout(grow, Math.min(1000, Math.max(matchMedia("(prefers-reduced-motion: reduce)").matches ? 1000 : 50, (view.to - view.from) / width / 2)));
    };
    grow();
    return () => clearTimeout(timer);
  }, [layout.live, task.past]);

  const dragged = event => {
    if (!event.buttons || held.dragX == null) return event.pointerType === "mouse" && setTip(tipOf(find(event), event.clientX, event.clientY));
    if (!held.moved && Math.abs(event.clientX - held.dragX) < 4) return undefined;
    if (!held.moved) body.current.parentElement.setPointerCapture(event.pointerId);
    held.moved = true;
    pan(held.dragX - event.clientX);
    held.dragX = event.clientX;
    return setTip(null);
  };
  const clicked = event => {
    if (held.moved && event.detail) return;
    const id = event.target.dataset?.bar;
    const bar = event.detail ? find(event) : layout.bars.find(one => one.id === id);
    if (bar) setActive(bar.id);
    select(bar);
  };
  const jump = event => {
    if (event.type === "pointermove" && !event.buttons) return;
    const { units, view, width } = held.shown;
    const length = view.to - view.from;
    show(((event.clientX - top.current.getBoundingClientRect().left) / width) * units - length / 2, length);
  };
  const pressed = event => {
    const { bars } = layout;
    const index = bars.findIndex(bar => bar.id === event.target.dataset.bar);
    const bar = bars[index];
    const key = event.key;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (key === "+" || key === "=") zoom(1.5);
    else if (key === "-") zoom(1 / 1.5);
    else if (key === "0") show(0, Infinity);
    else if (key === "PageUp" || (event.shiftKey && key === "ArrowLeft")) pan(-held.shown.width / 3);
    else if (key === "PageDown" || (event.shiftKey && key === "ArrowRight")) pan(held.shown.width / 3);
    else if (!bar) return;
    else if (key === "ArrowRight") walk(bars[index + 1]);
    else if (key === "ArrowLeft") walk(bars[index - 1]);
    else if (key === "Home") walk(bars[0]);
    else if (key === "End") walk(bars.at(-1));
    else if (key === "ArrowDown" || key === "ArrowUp") {
      const at = tops.rows.findIndex(row => row.bars === tops.rowOf(bar));
      const next = tops.rows[at + (key === "ArrowDown" ? 1 : -1)];
      if (next) walk(barAt(next.bars, bar.u0, Infinity));
    } else return;
    event.preventDefault();
  };

  const shown = held.shown?.layout === layout ? held.shown : null;
  const buttons = shown ? near(layout.bars, shown, active ?? layout.bars.find(bar => bar.seq === selected)?.id) : [];
  const stop = buttons.find(bar => bar.id === active) ?? buttons.find(bar => bar.seq === selected) ?? buttons[0];
  const rate = shown ? shown.width / (shown.view.to - shown.view.from) : 0;
  const tool = (name, label, run, state) => html`<button type="button" class="quiet" title=${name} aria-label=${name} aria-pressed=${state} onClick=${run}>${label}</button>`;
  return html`<section class="lanes" aria-label="Lanes">
    <div class="lanes-tools">
      ${tool("Zoom out", "−", () => zoom(1 / 1.5))} ${tool("Zoom in", "+", () => zoom(1.5))} ${tool("Show all", "Fit", () => show(0, Infinity))}
      ${tool("Show long waits at their true length", "True scale", () => [(held.view = null), setCompress(!compress)], String(!compress))}
      ${layout.live && !task.past && tool("Keep the present in the window", "Follow", () => {
        held.follow = !held.follow;
        render(count => count + 1);
      }, String(held.follow))}
      <span class="grow"></span><span class="lanes-key" aria-hidden="true"><i class="first"></i> to the first token <i class="void"></i> void <i class="wait"></i> waits</span>
    </div>
    <div class="lanes-box" ref=${box}>
      <div class="lanes-heads">
        <div class="lanes-corner"></div>
        ${layout.lanes.map((lane, i) => html`<div key=${lane.key} class="lane" data-lane=${lane.name} style=${{ height: `${tops.heights[i]}px`, "--hue": lane.hue, "--chroma": lane.chroma }}>
          ${lane.taskId ? html`<a class="hostile" dir="auto" title=${`Sub-task ${lane.taskId}`} href=${`#/tasks/${encodeURIComponent(lane.taskId)}`}>↳ ${lane.name}</a>` : html`<span class="hostile" dir="auto" title=${lane.name}>${lane.kind === "sub" ? "↳ " : ""}${lane.name}</span>`}
        </div>`)}
      </div>
      <div class="lanes-time">
        <canvas class="lanes-top" ref=${top} aria-hidden="true" onPointerDown=${event => [top.current.setPointerCapture(event.pointerId), jump(event)]} onPointerMove=${jump}></canvas>
        <div class="lanes-bars" role="group" aria-label=${`Steps of the task. ${KEYS}`} onPointerMove=${dragged} onPointerLeave=${() => setTip(null)}
          onPointerDown=${event => Object.assign(held, { dragX: event.clientX, moved: false })} onPointerUp=${() => (held.dragX = null)} onClick=${clicked} onKeyDown=${pressed}>
          <canvas ref=${body} aria-hidden="true" style=${{ height: `${tops.height}px` }}></canvas>
          ${buttons.map(bar => {
            const x = Math.max(0, (bar.u0 - shown.view.from) * rate);
            const end = Math.min(shown.width, (Math.min(bar.u3, shown.units) - shown.view.from) * rate);
            const { y, height } = tops.placeOf(bar);
            return html`<button type="button" key=${bar.id} data-bar=${bar.id} data-turn=${bar.seq} data-kind=${bar.kind} data-state=${bar.state} tabindex=${bar === stop ? 0 : -1}
              aria-label=${describe(bar, shown.now).join(", ")} aria-current=${bar.seq != null && bar.seq === selected ? "step" : null}
              onFocus=${event => event.target.matches(":focus-visible") && [setActive(bar.id), setTip(tipOf(bar, event.target.getBoundingClientRect().left, event.target.getBoundingClientRect().bottom))]} onBlur=${() => setTip(null)}
              style=${{ left: `${x}px`, width: `${Math.max(6, end - x)}px`, top: `${y}px`, height: `${height}px` }}></button>`;
          })}
        </div>
      </div>
    </div>
    ${tip && html`<div class="lanes-tip" role="tooltip" style=${{ left: `${Math.max(8, Math.min(tip.x, innerWidth - 330))}px`, top: `${tip.y + 14}px` }}>
      ${describe(tip.bar, held.shown.now).map((line, i) => html`<div class="hostile ${i ? "dim" : ""}" dir="auto">${line}</div>`)}
    </div>`}
  </section>`;
}

const tipOf = (bar, x, y) => (bar ? { bar, x, y } : null);

/** Return the bars of the window that get a button: at most MOST, around the active one. */
function near(bars, { view }, active) {
  const seen = bars.filter(bar => bar.u3 >= view.from && bar.u0 <= view.to);
  const at = Math.max(0, seen.findIndex(bar => bar.id === active) - MOST / 2);
  return seen.slice(Math.max(0, Math.min(at, seen.length - MOST)), at + MOST);
}

/** Return what a bar says, as lines. */
function describe({ kind, lane, seq, step, turn, call, state, reason, from, begin, token, to, attempt }, now) {
  const usage = step?.metadata?.usage;
  const end = to ?? now;
  const name = call ? (kind === "sub" ? `sub-task of team ${call.subTask.team}` : call.tool) : lane;
  const text = kind === "point" && step ? textOf(step).slice(0, 120) : "";
  const why = turn?.routing?.reason ?? turn?.reason;
  return [
    `${name}${seq == null ? "" : ` · step ${seq}`}${attempt ? ` · attempt ${attempt}` : ""}`,
    text,
    to === from ? clock(from) : `${clock(from)} · ${duration(end - from)}${to == null ? " so far" : ""}`,
    begin - from > 100 && `${duration(Math.min(begin, end) - from)} before it began`,
    token > begin && `first token after ${duration(token - begin)}`,
    usage?.tokens_out > 0 && `${number(usage.tokens_in)} tokens in, ${number(usage.tokens_out)} out`,
    state && `${state}${reason ? `: ${reason}` : ""}`,
    why && kind === "turn" && `routed: ${why}`,
    begin === Infinity && statusName("approval"),
  ].filter(Boolean);
}
