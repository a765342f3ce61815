// lanes_draw: draws the lanes, the axis and the overview on canvases. `shown` is {view, width, now, units, layout, scale, tops}.

import { duration, statusName } from "./format.js";
import { elapsed, firstIndex, spans, ticks } from "./lanes_layout.js";

export const AXIS = 44; // height of the overview and the axis, in pixels
const MAP = 22;

/** Return the places of lanes and rows, in pixels. */
export function laneTops(lanes) {
  const of = new Map();
  const rows = [];
  const heights = [];
  let y = 0;
  for (const lane of lanes) {
    const height = lane.rows.length > 4 ? 8 : lane.rows.length > 1 ? 14 : 18;
    of.set(lane.key, y);
    lane.rows.forEach((bars, row) => rows.push({ y: y + 4 + row * (height + 2), height, bars, lane }));
    heights.push(lane.rows.length * (height + 2) + 6);
    y += heights.at(-1);
  }
  const found = bar => rows.find(row => row.lane.key === bar.lane && row.bars === row.lane.rows[bar.row]);
  return { of, rows, heights, height: Math.max(y, 24), placeOf: found, rowOf: bar => found(bar)?.bars };
}

/** Prepare a canvas, and return its context and colours. */
function prepare(canvas, width, height) {
  const ratio = devicePixelRatio;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  const style = getComputedStyle(canvas);
  const colors = new Map();
  const color = name => colors.get(name) ?? colors.set(name, style.getPropertyValue(`--${name}`)).get(name);
  return { context, color };
}

const colorOf = ({ hue, chroma }, color) => `oklch(${color("tone")} ${chroma} ${hue})`;

export function drawTop(canvas, { view, width, units, layout, scale, tops }) {
  const { context, color } = prepare(canvas, width, AXIS);
  const all = { from: 0, to: units };
  const high = Math.max(1, Math.min(4, (MAP - 4) / tops.rows.length));
  tops.rows.forEach(({ bars, lane }, i) => {
    context.fillStyle = colorOf(lane, color);
    for (const { bar, x0, x1 } of spans(bars, all, width, units)) {
      if (bar.state === "failed") context.fillStyle = color("bad");
      context.fillRect(x0, 2 + i * high, Math.max(1, x1 - x0), Math.max(1, high - 0.5));
      if (bar.state === "failed") context.fillStyle = colorOf(lane, color);
    }
  });
  const x0 = (view.from / units) * width;
  const x1 = Math.min(width, (view.to / units) * width);
  context.globalAlpha = 0.6;
  context.fillStyle = color("sunken");
  context.fillRect(0, 0, x0, MAP);
  context.fillRect(x1, 0, width - x1, MAP);
  context.globalAlpha = 1;
  context.strokeStyle = color("accent");
  context.strokeRect(x0 + 0.5, 0.5, Math.max(3, x1 - x0 - 1), MAP - 1);
  context.fillStyle = color("dim");
  for (const { x, time, step } of ticks(scale, layout.start, view, width)) {
    context.fillRect(Math.round(x), AXIS - 5, 1, 5);
    context.fillText(elapsed(time - layout.start, step), Math.min(x + 4, width - 40), AXIS - 12);
  }
}

export function drawBars(canvas, shown) {
  const { view, width, now, units, layout, scale, tops, selected } = shown;
  const { height } = tops;
  const { context, color } = prepare(canvas, width, height);
  const rate = width / (view.to - view.from);
  const at = time => (scale.units(time) - view.from) * rate;
  drawWaits(context, color, shown, at);
  context.strokeStyle = color("line");
  for (const y of tops.of.values()) line(context, 0, y + 0.5, width, y + 0.5);
  const hatch = context.createPattern(stripes(color("bad")), "repeat");
  for (const row of tops.rows) {
    const paint = colorOf(row.lane, color);
    for (const span of spans(row.bars, view, width, units)) drawSpan(context, color, { span, row, paint, hatch, view, rate, units, width });
  }
  let lastArrow = -9;
  for (const arrow of layout.arrows.slice(firstIndex(layout.arrows, one => at(one.at) >= 0))) {
    const x = at(arrow.at);
    if (x > width) break;
    if (x - lastArrow < 12) continue;
    lastArrow = x;
    drawArrow(context, color, x, tops.of.get(arrow.from.key) + 13, tops.of.get(arrow.to.key) + 13);
  }
  const dense = layout.marks.length * 40 * (view.to - view.from) > width * units;
  layout.marks.forEach((mark, i) => drawMark(context, color, mark, [mark.at, mark.to, layout.marks[i + 1]?.at ?? layout.end + 1e9, layout.marks[i - 1]?.to ?? layout.start].map(at), width, height, dense));
  if (layout.live) {
    context.fillStyle = color("run");
    context.fillRect(at(now), 0, 1, height);
  }
  for (const row of tops.rows) {
    for (const bar of selected == null ? [] : row.bars.slice(firstIndex(row.bars, one => one.u3 >= view.from))) {
      if (bar.u0 > view.to) break;
      if (bar.seq !== selected) continue;
      const x = (bar.u0 - view.from) * rate;
      context.strokeStyle = color("text");
      context.lineWidth = 2;
      context.strokeRect(x - 2, row.y - 2, Math.max(6, (Math.min(bar.u3, units) - bar.u0) * rate + 4), row.height + 4);
      context.lineWidth = 1;
    }
  }
}

/** A span: pale before the work began, lighter until the first token, then full; void text is hatched. */
function drawSpan(context, color, { span: { bar, x0, x1, count }, row: { y, height }, paint, hatch, view, rate, units, width }) {
  const rect = (from, to, alpha, fill = paint) => {
    context.globalAlpha = alpha;
    context.fillStyle = fill;
    context.fillRect(Math.max(from, -9), y, Math.min(to, width + 9) - Math.max(from, -9), height);
    context.globalAlpha = 1;
  };
  const end = Math.max(x1, x0 + (bar.kind === "point" ? 4 : 1.5));
  const full = bar.state === "failed" ? color("bad") : bar.state === "unknown" ? color("warn") : paint;
  if (bar.state === "void") {
    rect(x0, end, 0.15, color("bad"));
    rect(x0, end, 1, hatch);
  } else if (count > 1 || end - x0 < 3) rect(x0, end, 1, full);
  else {
    const silent = bar.to == null && bar.kind === "turn" && !bar.turn.text && !bar.turn.calls.length;
    const place = value => Math.min(end, (Math.min(value, units) - view.from) * rate);
    const begin = place(bar.u1);
    const token = silent ? end : place(bar.u2);
    rect(x0, begin, 0.2, full);
    rect(begin, token, 0.5, full);
    rect(token, end, 1, full);
    if (bar.state === "interrupted") rect(end - 3, end, 1, color("warn"));
    const left = Math.max(token, 0) + 5;
    if (Math.min(end, width) - left > 24 && height > 10) {
      context.save();
      context.beginPath();
      context.rect(left, y, Math.min(end, width) - left - 3, height);
      context.clip();
      context.fillStyle = color("bg");
      context.fillText(bar.call ? bar.call.tool.slice(0, 80) : bar.seq == null ? "…" : `#${bar.seq}`, left, y + height / 2 + 0.5);
      context.restore();
    }
  }
}

/** Bands over all lanes: the task waits. A break shows how long it was idle. */
function drawWaits(context, color, { layout, scale, width, tops: { height }, now }, at) {
  let last = -9;
  for (const { status, from, to } of layout.waits) {
    const x0 = Math.max(0, at(from));
    const x1 = Math.min(width, at(to ?? now));
    if (x1 <= 0 || x0 >= width || x1 <= last + 0.5) continue;
    last = x1;
    const paint = color(status === "paused" ? "warn" : status === "queued" ? "dim" : "wait");
    context.globalAlpha = 0.13;
    context.fillStyle = paint;
    context.fillRect(x0, 0, Math.max(1, x1 - x0), height);
    context.globalAlpha = 1;
    context.fillStyle = paint;
    writeInto(context, `${statusName(status)} · ${duration((to ?? now) - from)}`, x0, x1, height);
  }
  context.fillStyle = context.strokeStyle = color("dim");
  last = -9;
  for (const one of scale.breaks) {
    const x = at((one.from + one.to) / 2);
    if (x < 0 || x > width || x - last < 3) continue;
    last = x;
    context.setLineDash([3, 3]);
    line(context, Math.round(x) + 0.5, 0, Math.round(x) + 0.5, height);
    context.setLineDash([]);
    const text = duration(one.to - one.from);
    const half = context.measureText(text).width / 2 + 3;
    if (at(one.to) - at(one.from) < 2 * half) continue;
    context.clearRect(x - half, height - 15, 2 * half, 14);
    context.fillText(text, x - half + 3, height - 8);
  }
}

/** Write a text into a band, upright if the band is narrow. */
function writeInto(context, text, x0, x1, height) {
  const wide = context.measureText(text).width;
  context.save();
  context.translate((x0 + x1) / 2, 10);
  if (wide + 8 < x1 - x0) context.fillText(text, -wide / 2, 0);
  else if (x1 - x0 > 30 && wide + 12 < height) {
    context.rotate(-Math.PI / 2);
    context.fillText(text, -wide, -8);
  }
  context.restore();
}

function drawArrow(context, color, x, from, to) {
  const turn = from < to ? -5 : 5;
  context.strokeStyle = context.fillStyle = color("text");
  line(context, x, from, x, to + turn);
  context.beginPath();
  context.moveTo(x, to);
  context.lineTo(x - 4, to + turn * 1.4);
  context.lineTo(x + 4, to + turn * 1.4);
  context.fill();
  context.beginPath();
  context.arc(x, from, 2.5, 0, 7);
  context.fill();
}

/** An interruption is the time from its request to the close of the connection. */
function drawMark(context, color, { kind, text, receipt }, [x0, x1, next, before], width, height, dense) {
  if (x1 < 0 || x0 > width) return;
  const paint = color({ interrupt: "warn", end: "dim" }[kind] ?? "bad");
  context.fillStyle = paint;
  context.globalAlpha = 0.35;
  context.fillRect(x0, 0, x1 - x0, height);
  context.globalAlpha = dense ? 0.5 : 1;
  context.fillRect(x1, 0, 1.5, height);
  context.globalAlpha = 1;
  if (kind === "end" || dense) return;
  context.fillRect(x1 - 4, 0, 9, 6);
  const closed = receipt?.closed_at && receipt.requested_at ? ` · closed in ${duration(Date.parse(receipt.closed_at) - Date.parse(receipt.requested_at))}, chunks after: ${receipt.chunks_after}` : "";
  const said = `${kind === "interrupt" ? "interrupted" : kind}${closed || `: ${text.slice(0, 60)}`}`;
  const wide = context.measureText(said).width + 12;
  if (x1 + wide < Math.min(next, width)) context.fillText(said, x1 + 8, 6);
  else if (next >= width && x0 - wide > Math.max(before, 0)) context.fillText(said, x0 - wide + 4, 6);
}

function line(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

let striped = {};

function stripes(paint) {
  if (striped.paint === paint) return striped.canvas;
  const canvas = Object.assign(document.createElement("canvas"), { width: 8, height: 8 });
  const context = canvas.getContext("2d");
  context.strokeStyle = paint;
  context.lineWidth = 2;
  for (const x of [-8, 0, 8]) line(context, x, 8, x + 8, 0);
  striped = { paint, canvas };
  return canvas;
}
