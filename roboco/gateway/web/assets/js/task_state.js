// task_state: a task, folded from the frames of its stream. Pure: the same frames give the same task.
//
//   event_agent_select ─► turn (open) ─► text, calls ─► step_final: the turn is a committed step
//                              └─► event_turn_restart, event_stream_reset: its text is void

export const newTask = taskId => ({
  taskId, team: "", status: "queued", reason: "", statusAt: null, startedAt: null, endedAt: null,
  used: { tokens_in: 0, tokens_out: 0, cost: 0 },
  usage: null,
  state: {}, // the values that its steps share; null: not folded yet
  limitsAt: -1, // position of the step that last changed limits
  waitingCalls: [], changes: [],
  failures: new Set(), // positions of steps with an error
  steps: [],
  turns: new Map(), // step id ─► turn, also of committed steps
  open: new Set(), // turns without a step
  hues: new Map(), // agent ─► degrees of its colour
  calls: new Map(), // call id ─► call
  statuses: [], handoffs: [], errors: [], resets: [],
  integrity: { generation: "", events: 0, chunks: 0, gaps: [], mismatches: [] },
});

export function fold(task, { type, place, data }) {
  count(task.integrity, type, place);
  FOLDS[type]?.(task, data, Date.parse(data.timestamp)); // frames of a newer release change nothing
}

const MOST_STATE = 32768; // bytes
export const openTurns = task => [...task.open].filter(turn => !turn.replaced);
export const textOf = step => step.parts.map(part => part.text ?? "").join("");
export const ENDED = new Set(["completed", "failed", "cancelled", "goals_failed"]);
export const WAITING = new Set(["user_turn", "client_tool_turn", "approval", "paused"]);
/** Return a recorded reason as a person would say it. */
export const plain = reason => reason?.replace(/\bafter (\S+) always$/, "$1 has finished");
export const isAgent = name => !["user", "tool_executor", "orchestrator"].includes(name);

const FOLDS = {
  event_task_start(task, { team }, at) {
    task.team = team;
    task.startedAt ??= at;
  },
  event_status(task, { status, reason, calls = [], changes = [] }, at) {
    Object.assign(task, { status, reason: plain(reason), statusAt: at, waitingCalls: calls, changes });
    task.statuses.push({ status, at });
  },
  event_agent_select(task, { agent_name: agent, step_id, reason, timestamp }, at) {
    Object.assign(turnOf(task, step_id, agent), { agent, reason: plain(reason), at });
    if (WAITING.has(task.status) || task.status === "queued") FOLDS.event_status(task, { status: "running", reason: "", timestamp }, at);
  },
  event_agent_handoff(task, { from_agent: from, to_agent: to }, at) {
    task.handoffs.push({ from, to, at });
  },
  text_part_delta(task, { text, step_id, agent_name, attempt, replace }) {
    const turn = turnOf(task, step_id, agent_name);
    Object.assign(turn, { attempt, text: replace ? text : turn.text + text });
  },
  reasoning_delta(task, { text, step_id, agent_name }) {
    const turn = turnOf(task, step_id, agent_name);
    turn.reasoning = ((turn.reasoning ?? "") + text).slice(-4000);
  },
  tool_call_part(task, { step_id, agent_name, part: { tool_call } }) {
    const turn = turnOf(task, step_id, agent_name);
    if (!turn.calls.includes(tool_call.id)) turn.calls.push(tool_call.id);
    callOf(task, tool_call.id, { tool: tool_call.tool_name, args: tool_call.args, stepId: step_id, agent: agent_name });
  },
  tool_result_part(task, { tool_name: tool, part: { tool_result: result } }) {
    callOf(task, result.tool_call_id, { tool, result, unknown: null });
  },
  event_sub_task(task, { tool_call_id, sub_task_id: id, team }, at) {
    callOf(task, tool_call_id, { subTask: { id, team, at } });
  },
  event_tool_unknown(task, { tool_name: tool, tool_call_id, reason }, at) {
    callOf(task, tool_call_id, { tool, unknown: { reason, at } });
  },
  event_turn_restart(task, { step_id, attempt, reason, replaced }, at) {
    const turn = turnOf(task, step_id);
    voidText(turn, reason, at);
    Object.assign(turn, { attempt, replaced });
  },
  step_final: (task, { step }) => addStep(task, step),
  event_stream_reset(task, { steps }, at) {
    for (const turn of openTurns(task)) voidText(turn, "the live log was lost", at);
    task.resets.push({ steps, at });
  },
  event_error(task, { code, message }) {
    task.errors.push({ code, message });
    if (code === "events_lost") task.integrity.gaps.push(message);
  },
  event_task_end(task, { status, reason, usage }, at) {
    FOLDS.event_status(task, { status, reason }, at);
    Object.assign(task, { usage, endedAt: at });
    for (const turn of openTurns(task)) turn.replaced = true;
  },
};

/** Return the state after a step, as workers fold it: null removes a value; too large changes are left out. */
export function changedState(values, { metadata: { state } }) {
  const changed = Object.fromEntries(Object.entries({ ...values, ...state }).filter(([, value]) => value != null));
  return !state || new Blob([JSON.stringify(changed)]).size > MOST_STATE ? values : changed;
}

/** Add a committed step, whose text must be that of the stream. */
export function addStep(task, step) {
  const { seq, agent_name: agent, step_id: stepId, metadata } = step;
  const { mismatches } = task.integrity;
  const earlier = task.steps[seq];
  if (earlier && earlier.digest !== step.digest) mismatches.push(seq);
  for (const usage of earlier ? [] : [metadata.usage, metadata.unfinished_usage]) {
    for (const name in task.used) task.used[name] += Number(usage?.[name]) || 0;
  }
  if (!earlier && metadata.new_limits) task.limitsAt = seq;
  if (!earlier && metadata.state) task.state = task.state && seq === task.steps.length ? changedState(task.state, step) : null;
  task.steps[seq] = step;
  const at = Date.parse(step.created_at);
  task.startedAt ??= at;
  if (isAgent(agent)) {
    const turn = turnOf(task, stepId, agent);
    if (turn.text && turn.text !== textOf(step)) mismatches.push(seq);
    turn.text = "";
    task.open.delete(turn);
  }
  for (const { type, tool_call: call, tool_result: result } of step.parts) {
    if (type === "error" || result?.is_error) task.failures.add(seq);
    if (type === "tool_call") callOf(task, call.id, { tool: call.tool_name, args: call.args, stepId, agent, at, seq });
    else if (type === "tool_result") callOf(task, result.tool_call_id, { result, resultSeq: seq, unknown: null, endedAt: at });
  }
}

function turnOf(task, stepId, agent = "") {
  if (!task.turns.has(stepId)) {
    const turn = { stepId, agent, attempt: 1, text: "", calls: [], voids: [], at: null, reason: "" };
    task.turns.set(stepId, turn);
    task.open.add(turn);
  }
  if (agent && !task.hues.has(agent)) task.hues.set(agent, (260 + 150 * task.hues.size) % 360);
  return task.turns.get(stepId);
}

function callOf(task, id, changes) {
  if (!task.calls.has(id)) task.calls.set(id, { id, tool: "", args: {}, result: null });
  return Object.assign(task.calls.get(id), changes);
}

function voidText(turn, reason, at) {
  const { text, attempt } = turn;
  turn.voids.push({ text, attempt, reason, at });
  Object.assign(turn, { text: "", calls: [] });
}

/** A place is GENERATION.EVENTS.CHUNKS.STEPS...; events of a generation are contiguous. */
function count(integrity, type, place) {
  const [generation, ...numbers] = place.split(".");
  const [events, chunks] = numbers.map(Number);
  if (generation !== integrity.generation) {
    Object.assign(integrity, { generation, events: 0, chunks: 0 });
  }
  if (events > integrity.events + 1) integrity.gaps.push(`events ${integrity.events + 1} to ${events - 1} are missing before ${type}`);
  integrity.events = Math.max(integrity.events, events);
  integrity.chunks = Math.max(integrity.chunks, chunks);
}
