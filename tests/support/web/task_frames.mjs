// Writes the frames of a long task: `node task_frames.mjs STEPS AGENTS [open] > frames.ndjson`. The same numbers give the same frames.
//
// Agents take turns, call tools in parallel, hand over, fail and repeat, are interrupted, and wait for people in between.

const START = Date.parse("2026-01-05T08:00:00Z");

/** Return the frames {type, place, data} of a task with at least this many steps. */
export function framesOf(steps, agents, open = false) {
  const frames = [];
  let [events, chunks, seq, at, seed] = [0, 0, 0, START, 7];
  const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  const stamp = () => new Date(at).toISOString();
  const put = (type, data) => frames.push({ type, place: `g.${++events}.${chunks}.${seq}.1`, data: { ...data, type, timestamp: stamp() } });
  const commit = (agent_name, parts, metadata = {}, step_id = `step-${seq}`) => {
    const step = { step_id, seq, parent_id: null, agent_name, parts, created_at: stamp(), metadata, prev_digest: "", digest: `d${seq}` };
    seq += 1;
    frames.push({ type: "step_final", place: `g.${++events}.${chunks}.${seq}.1`, data: { type: "step_final", step } });
  };
  const text = (agent_name, step_id, attempt, words) => {
    for (let i = 0; i < words; i++) {
      const data = { type: "text_part_delta", text: "word ", step_id, agent_name, attempt, replace: false };
      frames.push({ type: "text_part_delta", place: `g.${events}.${++chunks}.${seq}.1`, data });
    }
    return "word ".repeat(words);
  };
  put("event_task_start", { team: "bench" });
  commit("user", [{ type: "text", text: "begin" }]);
  at += 40;
  put("event_status", { status: "running", reason: "" });
  let agent = "agent-0";
  for (let turn = 0; open || seq < steps; turn++) {
    const step_id = `turn-${turn}`;
    put("event_agent_select", { agent_name: agent, step_id, reason: "the next in the order", routing: { router: "sequential", rule: "next", reason: "the next in the order" } });
    at += 20 + Math.floor(random() * 60);
    let attempt = 1;
    if (turn % 40 === 7) {
      text(agent, step_id, attempt, 3);
      at += 900;
      put("event_turn_restart", { step_id, attempt: ++attempt, reason: "the worker was lost", replaced: false });
    }
    const said = text(agent, step_id, attempt, 3);
    if (open && seq >= steps - 1) break;
    const [first_token_ms, duration_ms] = [200 + Math.floor(random() * 500), 900 + Math.floor(random() * 4000)];
    at += duration_ms;
    const calls = turn % 3 ? [] : Array.from({ length: 1 + (turn % 4) }, (_, i) => `call-${turn}-${i}`);
    const asked = calls.map(id => ({ type: "tool_call", tool_call: { id, tool_name: `tool_${turn % 5}`, args: { turn } } }));
    const failed = turn % 97 === 50 ? [{ type: "error", message: "the model refuses", code: "status" }] : [];
    const usage = { tokens_in: 900 + turn, tokens_out: said.length };
    commit(agent, [{ type: "text", text: said }, ...asked, ...failed], { timings: { first_token_ms, duration_ms }, usage, model: "m", attempt, interrupted: turn % 60 === 31 }, step_id);
    if (turn % 60 === 31) {
      const iso = ms => new Date(ms).toISOString();
      put("event_user_interrupt", { reason: "interrupted by the user", item_id: `i${turn}`, receipt: { requested_at: iso(at - 30), seen_at: iso(at - 20), closed_at: iso(at - 8), chunks_after: 1 } });
    }
    if (calls.length) {
      const runtimes = calls.map(() => Math.floor(random() * 3000));
      at += Math.max(...runtimes) + 5;
      const results = calls.map((id, i) => ({ type: "tool_result", tool_result: { tool_call_id: id, result: "done", error: null, is_error: turn % 33 === 0, runtime_ms: runtimes[i] } }));
      commit("tool_executor", results);
    } else if (turn % 50 === 25) {
      put("event_status", { status: "user_turn", reason: "the turn of the user" });
      at += 60000 + Math.floor(random() * 7200000);
      commit("user", [{ type: "text", text: "go on" }]);
      put("event_status", { status: "running", reason: "" });
    } else if (turn % 5 === 4) {
      const to = `agent-${(turn * 7) % agents}`;
      put("event_agent_handoff", { from_agent: agent, to_agent: to, reason: "it needs a second view" });
      agent = to;
      continue;
    }
    if (!calls.length) agent = `agent-${turn % agents}`;
  }
  if (!open) put("event_task_end", { status: "completed", reason: "done", usage: {}, agents: {} });
  return frames;
}

if (process.argv[1]?.endsWith("task_frames.mjs")) {
  for (const frame of framesOf(Number(process.argv[2]), Number(process.argv[3]), process.argv[4] === "open")) console.log(JSON.stringify(frame));
}
