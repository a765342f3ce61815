// lanes_layout: the geometry of the lanes. Pure: no clock, no page.
//
//   task ─► layOut: lanes, rows, bars, waits (milliseconds) ─► newScale: a long wait is a break ─► spans (pixels)
//
// Bars of committed steps are final, so an event costs new steps and open bars. An open end is Infinity. Clocks of workers differ.

import { duration } from "./format.js";
import { WAITING, isAgent } from "./task_state.js";

const SKEW = 50; // milliseconds by which bars of a row may overlap
const NEAR = 6; // pixels
const ORDER = ["user", "agent", "coordinator", "tools", "sub"]; // from top to bottom
const ROUND = [0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600, 21600, 86400]; // seconds between ticks
export const ROW = 18; // pixels

/** Return the layout of a task. If its steps begin with those of `layout`, that one grows. */
export function layOut(task, layout) {
  if (!layout?.steps.every((step, i) => step === task.steps[i])) layout = { steps: [], bars: [], final: 0, lanes: [], calls: new Set() };
  const { steps, bars, calls } = layout;
  const all = [{ status: "queued", at: task.startedAt ?? Infinity }, ...task.statuses];
  layout.waits = all.map(({ status, at }, i) => ({ status, from: at, to: all[i + 1]?.at ?? Infinity }))
    .filter(({ status, from, to }) => to > from && (status === "queued" || WAITING.has(status)));
  for (const { lane, row } of bars.splice(layout.final)) {
    lane.rows[row].pop();
    while (lane.rows.at(-1)?.length === 0) lane.rows.pop();
  }
  while (steps.length < task.steps.length) {
    const step = task.steps[steps.length];
    steps.push(step);
    if (step && step.agent_name !== "tool_executor") addTurn(layout, task, task.turns.get(step.step_id), step);
    for (const { tool_call: call, tool_result: result } of step?.parts ?? []) {
      if (call) calls.add(call.id);
      if (result && calls.delete(result.tool_call_id)) addCall(layout, task, result.tool_call_id);
    }
  }
  layout.final = bars.length;
  for (const turn of task.open) addTurn(layout, task, turn);
  for (const id of calls) addCall(layout, task, id);
  layout.lanes = layout.lanes.filter(lane => lane.rows.length).sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind));
  let height = 0;
  for (const lane of layout.lanes) {
    lane.y = height;
    height += lane.height = lane.rows.length * ROW + 8;
  }
  layout.start = Math.min(task.startedAt ?? 0, bars[0]?.from ?? Infinity);
  layout.end = Math.max(layout.start, task.statusAt, bars[layout.final - 1]?.to ?? 0, bars.at(-1)?.from ?? 0);
  return layout;
}

/** Add the failed attempts of a turn, then the last one. Its work begins at `begin`, its first token comes at `token`. */
function addTurn(layout, task, turn = {}, step) {
  const { voids = [], stepId: id = step.step_id, agent: name = step.agent_name, reason } = turn;
  const { timings: { duration_ms: worked, first_token_ms: silent = 0 } = {}, interrupted } = step?.metadata ?? {};
  const to = Date.parse(step?.created_at);
  const kind = isAgent(name) ? "agent" : name === "user" ? name : "coordinator";
  const put = bar => add(layout, kind, name, { id, seq: step?.seq, text: step ? `#${step.seq}` : "…", reason, ...bar });
  let from = turn.at ?? voids[0]?.at ?? to - (worked ?? 0);
  if (Number.isNaN(from)) return;
  voids.forEach(({ reason, at }, i) => {
    put({ id: `${id} ${i}`, from, to: at, state: "void", reason });
    from = Math.max(from, at);
  });
  if (step) {
    const begin = Math.max(from, to - (worked ?? Infinity));
    put({ from, begin, token: begin + silent, to, state: step.parts.some(part => part.type === "error") ? "failed" : interrupted && "interrupted" });
  } else if (!turn.replaced) put({ from, token: turn.text || turn.calls.length ? from : Infinity, to: Infinity });
  else if (turn.text || !voids.length) put({ from, to: task.endedAt ?? from, state: "void", reason: "another step replaced this turn" });
}

/** Add the bar of a call, which begins after the wait for a person, and that of its sub-task. */
function addCall(layout, task, id) {
  const { at: from, seq, tool: text, result, resultSeq = seq, endedAt = Infinity, subTask, unknown } = task.calls.get(id);
  const wait = layout.waits.findLast(one => one.from < endedAt && one.to < Infinity);
  let begin = wait?.to <= endedAt ? Math.max(from, wait.to) : from;
  let to = task.endedAt ?? Infinity;
  if (result) {
    begin = Math.max(from, Math.min(begin, endedAt - result.runtime_ms));
    to = Math.min(endedAt, subTask ? Infinity : begin + result.runtime_ms);
  } else if (task.waitingCalls.includes(id)) begin = Infinity;
  const bar = { id, seq: resultSeq, text, from, begin, to, state: unknown ? "unknown" : result?.is_error && "failed", reason: unknown?.reason };
  add(layout, "tools", "tools", bar);
  if (subTask) add(layout, "sub", subTask.team, { ...bar, id: `sub ${id}`, from: Math.min(Math.max(from, subTask.at), to), begin: 0 }, subTask.id);
}

function add({ lanes, bars }, kind, name, bar, taskId = "") {
  let lane = lanes.find(one => one.kind === kind && one.name === name && one.taskId === taskId);
  if (!lane) lanes.push((lane = { kind, name, taskId, rows: [] }));
  const { rows } = lane;
  let row = rows.findIndex(others => others.at(-1).to <= bar.from + SKEW);
  if (row < 0) row = rows.push([]) - 1;
  const from = Math.max(bar.from, rows[row].at(-1)?.to ?? 0);
  const to = Math.max(bar.to, from);
  const begin = Math.min(Math.max(bar.begin ?? from, from), to);
  const token = Math.min(Math.max(bar.token ?? begin, begin), to);
  bars.push(Object.assign(bar, { lane, row, from, begin, token, to }));
  rows[row].push(bar);
}

/** Return {units(time), time(units), breaks}. Units are milliseconds, but a break has fewer. */
export function newScale({ waits, start, end }, now = end) {
  const ended = waits.map(({ from, to }) => ({ from, to: Math.min(to, now) }));
  const worked = ended.reduce((sum, { from, to }) => sum - to + from, now - start);
  const limit = 2 ** Math.round(Math.log2(Math.max(1000, worked / (2 * waits.length + 12))));
  const breaks = ended.filter(({ from, to }) => to - from > limit);
  const knots = [[start, 0]]; // time, units
  for (const { from, to } of breaks) {
    const units = knots.at(-1)[1] + from - knots.at(-1)[0];
    knots.push([from, units], [to, units + limit]);
  }
  knots.push(knots.at(-1).map(value => value + 1e15));
  const convert = (value, a, b) => {
    const next = Math.min(Math.max(1, firstIndex(knots, knot => knot[a] > value)), knots.length - 1);
    const [low, high] = [knots[next - 1], knots[next]];
    return low[b] + ((value - low[a]) * (high[b] - low[b])) / (high[a] - low[a]);
  };
  return { breaks, units: time => convert(time, 0, 1), time: units => convert(units, 1, 0) };
}

/** Return what a row shows: {bar, x0, x1, count}. Bars that end within NEAR are one span, except those with an id in `alone`. A failed one names it. */
export function spans(row, { x, time }, left, right, alone = []) {
  const found = [];
  let [until, begin, end] = [0, time(left), time(right)];
  for (let i = firstIndex(row, bar => bar.to >= begin); row[i]?.from <= end; i++) {
    const bar = row[i];
    const last = found.at(-1);
    if (bar.to <= until && !alone.includes(bar.id) && !alone.includes(last.bar.id)) {
      if (bar.state) last.bar = bar;
      last.count += 1;
      last.x1 = last.x0 + NEAR - 1;
    } else {
      const x0 = x(bar.from);
      found.push({ bar, x0, x1: x(bar.to), count: 1 });
      until = time(x0 + NEAR);
    }
  }
  return found;
}

/** Return the bar to which an arrow key goes: the next one of a lane, or the nearest one of the lane above or below. */
export function neighbour({ bars, lanes }, bar, key) {
  const by = { ArrowLeft: -1, ArrowUp: -1 }[key] ?? 1;
  const inLane = lane => bars.filter(one => one.lane === lane);
  if (key === "ArrowLeft" || key === "ArrowRight") return inLane(bar.lane).at(Math.max(0, inLane(bar.lane).indexOf(bar) + by));
  const others = inLane(lanes[lanes.indexOf(bar.lane) + by]);
  return others.findLast(one => one.from <= bar.from) ?? others[0];
}

/** Return ticks {at, text}, at round times since the start. */
export function ticks({ x, time }, start, left, right) {
  const found = [];
  const step = 1000 * ROUND.find(seconds => x(start + 1000 * seconds) - x(start) >= 90);
  for (let place = left; place < right; place += 90) {
    const since = Math.max(0, Math.ceil((time(place) - start) / step - 1e-6) * step);
    const [at, text, last] = [start + since, duration(since), found.at(-1)];
    if (text !== last?.text && (!last || x(at) >= x(last.at) + 60)) found.push({ at, text });
  }
  return found;
}

/** Return the first index that fulfils a test, which is false, then true. */
export function firstIndex(items, test) {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (test(items[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}
