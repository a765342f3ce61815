// lanes_layout: the geometry of the lanes. Pure: no clock, no page.
//
//   task ─► layOut: lanes ─► rows ─► bars, waits, marks, arrows (milliseconds)
//             └─► newScale: long idle times become breaks (milliseconds ◄─► units) ─► spans: bars of a window (pixels)
//
// Clocks of workers differ: no bar ends before it begins, and bars of a row do not overlap by less than SKEW.

import { WAITING, isAgent } from "./task_state.js";

const SKEW = 50; // milliseconds
const SEPARATE = 8; // more sub-tasks share a lane for each team
const OUTSIDE = new Map([["user", "user"], ["orchestrator", "coordinator"], [" tools", "tools"]]); // no agent's name has a space

/** Return {lanes, bars, waits, marks, arrows, start, end, live}. `to` is null while a bar or wait is open. */
export function layOut(task) {
  const waits = waitsOf(task);
  const bars = [...turnBars(task), ...callBars(task, waits)].sort((a, b) => a.from - b.from);
  const marks = marksOf(task);
  const times = [task.startedAt, task.endedAt, task.statusAt, ...marks.map(mark => mark.to)].filter(Number.isFinite);
  let start = Math.min(...times, bars[0]?.from ?? Infinity);
  let end = Math.max(...times);
  for (const bar of bars) end = Math.max(end, bar.to ?? bar.from);
  if (start > end) start = end = 0;
  const lanes = pack(bars, task.hues);
  const byName = new Map(lanes.filter(lane => lane.kind === "agent").map(lane => [lane.name, lane]));
  const arrows = task.handoffs.map(({ from, to, reason, at }) => ({ from: byName.get(from), to: byName.get(to), reason, at })).filter(arrow => arrow.from && arrow.to && arrow.from !== arrow.to);
  return { lanes, bars, waits, marks, arrows, start, end, live: task.endedAt == null };
}

/** Return the times in which the task waits: {status, reason, from, to}. */
function waitsOf(task) {
  const waits = [];
  let now = { status: "queued", reason: "", at: task.startedAt ?? task.statusAt };
  for (const next of task.statuses) {
    const at = Math.max(now.at, next.at);
    if (waitsIn(now.status) && at > now.at) waits.push({ status: now.status, reason: now.reason, from: now.at, to: at });
    now = { ...next, at };
  }
  if (waitsIn(now.status) && now.at != null && task.endedAt == null) waits.push({ status: now.status, reason: now.reason, from: now.at, to: null });
  return waits;
}

const waitsIn = status => status === "queued" || WAITING.has(status);

/** Return the bars of steps and running turns. `begin` is when the work began, `token` when its first token arrived. */
function turnBars(task) {
  const bars = [];
  for (const step of task.steps) {
    if (!step || step.agent_name === "tool_executor") continue;
    const turn = task.turns.get(step.step_id);
    const at = Date.parse(step.created_at);
    const { timings = {}, interrupted } = step.metadata ?? {};
    const lane = step.agent_name;
    const bar = { id: `s${step.seq}`, seq: step.seq, lane, kind: isAgent(lane) ? "turn" : "point", step, turn, to: at };
    bar.from = isAgent(lane) ? attempts(bars, bar, turn, turn?.at ?? at - (timings.duration_ms ?? 0)) : at;
    bar.to = Math.max(at, bar.from);
    bar.begin = Math.max(bar.from, bar.to - (timings.duration_ms ?? bar.to));
    bar.token = Math.min(bar.to, bar.begin + (timings.first_token_ms ?? 0));
    bar.state = step.parts.some(part => part.type === "error") ? "failed" : interrupted ? "interrupted" : "";
    bars.push(bar);
  }
  for (const turn of task.turns.values()) {
    if (turn.committed || (turn.at == null && !turn.restarts.length)) continue;
    const bar = { id: turn.stepId, seq: null, lane: turn.agent, kind: "turn", turn, state: "" };
    bar.from = attempts(bars, bar, turn, turn.at ?? turn.restarts[0].at);
    bar.begin = bar.token = bar.from;
    bar.to = null;
    if (!turn.replaced) bars.push(bar);
    else if (turn.text || !turn.restarts.length) bars.push({ ...bar, to: Math.max(bar.from, task.endedAt ?? bar.from), state: "void", reason: "another step replaced this turn" });
  }
  return bars;
}

/** Add the attempts of a turn that failed. Return the time at which its last attempt begins. */
function attempts(bars, { id, seq, lane, kind }, turn, from) {
  for (const { attempt, reason, at } of turn?.restarts ?? []) {
    const to = Math.max(from, at);
    bars.push({ id: `${id}-${attempt}-${bars.length}`, seq, lane, kind, turn, attempt, reason, from, begin: from, token: from, to, state: "void" });
    from = to;
  }
  return from;
}

/** Return the bars of calls. A call that waited for a person begins after the wait. */
function callBars(task, waits) {
  const bars = [];
  const shared = [...task.calls.values()].filter(call => call.subTask).length > SEPARATE;
  for (const call of task.calls.values()) {
    if (call.at === undefined) continue; // its step is not committed: it has not begun
    const bar = { id: `c${call.id}`, seq: call.resultSeq ?? call.seq, lane: " tools", kind: "call", call, from: call.at, to: null, state: "" };
    const committed = call.resultSeq === undefined ? Infinity : Math.max(call.at, Date.parse(task.steps[call.resultSeq].created_at));
    const runtime = call.result?.runtime_ms || 0;
    bar.begin = Math.max(call.at, Math.min(waitedUntil(waits, call.at, committed), committed - runtime));
    if (call.result) bar.to = call.subTask && committed < Infinity ? committed : Math.min(committed, bar.begin + runtime);
    else if (task.endedAt != null) bar.to = Math.max(call.at, task.endedAt);
    if (!call.result) bar.begin = task.waitingCalls.includes(call.id) ? Infinity : Math.max(call.at, waitedUntil(waits, call.at, Infinity));
    if (bar.to != null) bar.begin = Math.min(bar.begin, bar.to);
    bar.token = bar.begin;
    if (call.unknown) Object.assign(bar, { state: "unknown", reason: call.unknown.reason });
    else if (call.result?.is_error) bar.state = "failed";
    bars.push(bar);
    if (!call.subTask) continue;
    const from = Math.min(Math.max(call.at, call.subTask.at), bar.to ?? Infinity);
    const lane = ` sub ${shared ? call.subTask.team : call.subTask.id}`;
    bars.push({ ...bar, id: `t${call.id}`, kind: "sub", lane, from, begin: from, token: from });
  }
  return bars;
}

/** Return the end of the last wait that began and ended in this time. */
function waitedUntil(waits, from, to) {
  let index = firstIndex(waits, wait => wait.from >= to) - 1;
  while (index >= 0 && waits[index].to == null) index--;
  return index >= 0 && waits[index].to > from && waits[index].to <= to ? waits[index].to : from;
}

function marksOf(task) {
  const marks = task.interrupts.map(({ reason, receipt, at }) => {
    const [asked = at, closed = at] = [receipt?.requested_at, receipt?.closed_at].map(time => (time ? Date.parse(time) : undefined));
    return { kind: "interrupt", at: Math.min(asked, at), to: Math.max(asked, closed), text: reason, receipt };
  });
  for (const { code, message, at } of task.errors) marks.push({ kind: "error", at, to: at, text: `${code}: ${message}` });
  for (const { at } of task.resets) marks.push({ kind: "reset", at, to: at, text: "the live log was lost; the history is complete" });
  if (task.endedAt != null) marks.push({ kind: "end", at: task.endedAt, to: task.endedAt, text: `${task.status}${task.reason ? `: ${task.reason}` : ""}` });
  return marks.sort((a, b) => a.at - b.at);
}

/** Give each bar a row of its lane. Return the lanes: the user, agents, tools, sub-tasks. */
function pack(bars, hues) {
  const lanes = new Map();
  const laneOf = bar => {
    let lane = lanes.get(bar.lane);
    if (!lane) {
      const sub = bar.kind === "sub" && bar.call.subTask;
      const kind = sub ? "sub" : (OUTSIDE.get(bar.lane) ?? "agent");
      const name = sub ? sub.team : (OUTSIDE.get(bar.lane) ?? bar.lane);
      lanes.set(bar.lane, (lane = { key: bar.lane, name, kind, rows: [], taskId: sub && bar.lane === ` sub ${sub.id}` ? sub.id : null }));
    }
    return lane;
  };
  for (const bar of bars) {
    const { rows } = laneOf(bar);
    let row = rows.findIndex(others => (others.at(-1).to ?? Infinity) <= bar.from + SKEW);
    if (row < 0) row = rows.push([]) - 1;
    const before = rows[row].at(-1);
    if (before && before.to > bar.from) {
      for (const edge of ["from", "begin", "token", "to"]) if (bar[edge] != null) bar[edge] = Math.max(bar[edge], before.to);
    }
    bar.row = row;
    rows[row].push(bar);
  }
  const order = ["user", "agent", "coordinator", "tools", "sub"];
  const all = [...lanes.values()].sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
  // Agents have their colour of the conversation; the other lanes are nearly grey.
  for (const lane of all) Object.assign(lane, lane.kind === "agent" ? { hue: hues.get(lane.name) ?? 262, chroma: 0.13 } : { hue: 262, chroma: lane.kind === "sub" ? 0.06 : 0.02 });
  return all;
}

/**
 * Return the scale of a layout: {units(time), time(units), grow(now), breaks}. Units are milliseconds, but an idle time longer than the
 * scale's limit is a break of that length. `compress` false gives true time.
 */
export function newScale({ bars, marks, arrows, start, end, live }, compress) {
  const busy = bars.filter(bar => bar.begin < Infinity).map(bar => [bar.begin, bar.to ?? Infinity]);
  for (const { at, to } of marks) busy.push([at, to]);
  for (const { at } of arrows) busy.push([at, at]);
  busy.push([start, start]);
  if (!live) busy.push([end, end]);
  busy.sort((a, b) => a[0] - b[0]);
  const idle = [];
  let until = start;
  for (const [from, to] of busy) {
    if (from > until) idle.push([until, from]);
    until = Math.max(until, to);
  }
  const running = until === Infinity;
  const worked = Math.max(1, (running ? end : until) - start - idle.reduce((sum, [from, to]) => sum + to - from, 0));
  const long = idle.filter(([from, to]) => to - from > 1000).length;
  const limit = compress ? 2 ** Math.round(Math.log2(Math.max(1000, worked / (2 * long + 12)))) : Infinity;
  const knots = [{ time: start, units: 0 }];
  const breaks = [];
  const skip = (from, to) => {
    if (to - from <= limit) return;
    const last = knots.at(-1);
    const units = last.units + from - last.time;
    knots.push({ time: from, units, rate: limit / (to - from) }, { time: to, units: units + limit });
    breaks.push({ from, to, units, length: limit });
  };
  for (const [from, to] of idle) skip(from, to);
  const known = [knots.length, breaks.length];
  return {
    breaks,
    /** Set the present: while nothing works, the wait until now is a break too. */
    grow(now) {
      [knots.length, breaks.length] = known;
      if (live) skip(until, now);
    },
    units(time) {
      const knot = knots[firstIndex(knots, one => one.time > time) - 1] ?? knots[0];
      return knot.units + (time - knot.time) * (knot.rate ?? 1);
    },
    time(units) {
      const knot = knots[firstIndex(knots, one => one.units > units) - 1] ?? knots[0];
      return knot.time + (units - knot.units) / (knot.rate ?? 1);
    },
  };
}

/** Give all bars their places in units: u0 (from), u1 (begin), u2 (first token), u3 (to; Infinity while it is open). */
export function placeBars(bars, scale) {
  for (const bar of bars) {
    bar.u0 = scale.units(bar.from);
    bar.u3 = bar.to == null ? Infinity : scale.units(bar.to);
    bar.u1 = bar.begin === bar.from ? bar.u0 : bar.begin < Infinity ? scale.units(bar.begin) : Infinity;
    bar.u2 = bar.token === bar.begin ? bar.u1 : scale.units(bar.token);
  }
}

/**
 * Return what to draw of a row: {bar, x0, x1, count}. `view` is {from, to} in units. Bars closer than a pixel become one span of
 * `count` bars of at most some two pixels, so there are never more spans than pixels. A failed bar is the bar of its span.
 */
export function spans(row, view, width, now) {
  const rate = width / (view.to - view.from);
  const found = [];
  let last = null;
  for (let i = firstIndex(row, bar => bar.u3 >= view.from); i < row.length && row[i].u0 <= view.to; i++) {
    const bar = row[i];
    const x0 = (bar.u0 - view.from) * rate;
    const x1 = (Math.min(bar.u3, now) - view.from) * rate;
    if (last && last.x1 - last.x0 < 2 && x1 - last.x1 < 1 && x0 - last.x1 < 1) {
      last.count += 1;
      last.x1 = Math.max(last.x1, x1);
      if (bar.state) last.bar = bar;
    } else {
      found.push((last = { bar, x0, x1: Math.max(x0, x1), count: 1 }));
    }
  }
  return found;
}

/** Return the bar of a row at this place, or the nearest one within `most` units, or null. */
export function barAt(row, units, most) {
  const index = firstIndex(row, bar => bar.u3 >= units);
  const near = [row[index - 1], row[index]].filter(Boolean).map(bar => [Math.max(0, bar.u0 - units, units - bar.u3), bar]);
  const [best] = near.sort((a, b) => a[0] - b[0]);
  return best && best[0] <= most ? best[1] : null;
}

/** Return the times of the axis in a window: {x, time, step}. Times are round where the window has no break, else evenly spaced. */
export function ticks(scale, start, view, width, space = 100) {
  const rate = width / (view.to - view.from);
  const breaks = scale.breaks.filter(one => one.units < view.to && one.units + one.length > view.from);
  const step = STEPS.find(one => one * rate >= space) ?? Math.ceil(space / rate / 86400000) * 86400000;
  const found = [];
  for (let x = 0; x < width; x += space) {
    let time = scale.time(view.from + x / rate);
    if (breaks.length) time = breaks.find(one => one.from < time && time < one.to)?.to ?? time;
    else time = start + Math.ceil((time - start) / step - 1e-9) * step;
    const at = (scale.units(time) - view.from) * rate;
    if (at <= width && at - (found.at(-1)?.x ?? -space) >= space * 0.7) found.push({ x: at, time, step: breaks.length ? Math.min(step, 1000) : step });
  }
  return found;
}

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400].map(s => s * 1000)];

/** Return the time since the start, for the axis: "0.25 s", "12 s", "3:20", "2:05:00". */
export function elapsed(ms, step = 1000) {
  const s = Math.round(ms) / 1000;
  if (s < 60) return `${step < 1000 ? s.toFixed(step < 10 ? 3 : step < 100 ? 2 : 1) : Math.round(s)} s`;
  const two = value => String(Math.floor(value)).padStart(2, "0");
  const tail = step < 1000 ? (s % 60).toFixed(2).padStart(5, "0") : two(s % 60);
  return s < 3600 ? `${Math.floor(s / 60)}:${tail}` : `${Math.floor(s / 3600)}:${two((s / 60) % 60)}:${tail}`;
}

/** Return a window of `length` units at most as wide as all, within [0, total]. */
export function clampView(from, length, total) {
  const size = Math.min(Math.max(length, 20), total);
  const at = Math.min(Math.max(from, 0), total - size);
  return { from: at, to: at + size };
}

/** Return the first index whose item fulfils a test that is false, then true. */
export function firstIndex(items, test) {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (test(items[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}
