// controls: what a user can do with a task, why not where it is impossible, and the receipts of what was done.

import { html, useRef, useState } from "../vendor/preact.js";
import { post, request, taskPath } from "./api.js";
import { ActionButton, Ask, useDecision } from "./decision.js";
import { number, statusName } from "./format.js";
import { Receipt, useReceipts } from "./receipt.js";
import { ENDED } from "./task_state.js";
import { Problem, useLoad } from "./ui.js";

const BUSY = ["queued", "running"];
const WORKING = [...BUSY, "approval", "client_tool_turn"];
const POSSIBLE = { interrupt: WORKING, pause: WORKING, step: [...BUSY, "paused"], resume: ["paused"] }; // others: until the end
const LABELS = { messages: "Message", interrupt: "Interrupt", pause: "Pause", step: "Step", resume: "Resume", limits: "Limits", stop: "Stop" };

/** Return why an action is impossible now, or "". */
export function whyNot(action, status, can) {
  if (!can("control")) return "your key lacks the scope control";
  if (action === "fork") return "";
  if (ENDED.has(status)) return "the task has ended";
  return POSSIBLE[action]?.includes(status) === false ? `not possible with the status: ${statusName(status)}` : "";
}

export function Controls({ taskId, task, summary, selected, can }) {
  const [receipts, add] = useReceipts(taskId);
  const [dialog, open] = useState("");
  const props = { taskId, task, add, can, onClose: () => open("") };
  const Asked = { limits: LimitChange, fork: Fork, stop: Stop }[dialog];
  const button = (action, text, kind) => html`<${ActionButton} action=${action} why=${whyNot(action, task.status, can)} class=${kind} onClick=${() => open(action)}>${text}<//>`;
  const fork = button("fork", selected == null ? "Fork …" : `Fork from step ${selected} …`);
  const ended = ENDED.has(summary?.status) || ENDED.has(task.status);
  return html`<section class="controls" aria-label="Controls">
    ${ended
      ? html`<div class="row ended"><span class="hint">The task has ended. A fork continues with a copy of its steps.</span>${fork}</div>`
      : html`<${Composer} ...${props} />
    <div class="row">
      ${["pause", "step", "resume"].map(action => html`<${Direct} key=${action} action=${action} ...${props} />`)}
      ${button("limits", "Limits …")} ${fork}
      <span class="grow"></span>${button("stop", "Stop …", "danger")}
    </div>`}
    ${Asked && html`<${Asked} ...${props} seq=${selected ?? task.steps.length - 1} />`}
    <div class="receipts" role="log" aria-label="Receipts" tabindex=${receipts.length > 3 ? 0 : null}>${receipts.map(one => html`<${Receipt} key=${one.receipt.item_id} taskId=${taskId} ...${one} />`)}</div>
  </section>`;
}

/** Return [send, state]: send(path, body, query) sends a control, and shows its receipt. */
function useControl({ taskId, add }, done = () => {}) {
  const [run, state] = useDecision(done);
  const send = (path, body = {}, query = "") => run(taskPath(taskId, path) + query, body, async (...request) => add(LABELS[path], await post(...request)));
  return [send, state];
}

function Direct({ action, task, can, ...props }) {
  const [send, { busy, problem, retry }] = useControl(props);
  return html`<${ActionButton} action=${action} why=${whyNot(action, task.status, can)} disabled=${busy} onClick=${() => send(action)}>${LABELS[action]}<//><${Problem} problem=${problem} retry=${retry} />`;
}

function Composer({ task, can, ...props }) {
  const [text, setText] = useState("");
  const [agent, setAgent] = useState("");
  const [ifBusy, setIfBusy] = useState("queue");
  const box = useRef();
  const [send, state] = useControl(props, (_, { message }) => {
    setText(now => (now === message ? "" : now));
    box.current?.focus();
  });
  const { data: team } = useLoad(() => (task.team ? request(`v1/teams/${encodeURIComponent(task.team)}`) : null), [task.team]);
  const why = whyNot("send", task.status, can);
  const isBusy = BUSY.includes(task.status);
  const message = text.trim() && { message: text, ...(agent && { agent }) };
  const submit = () => !why && message && send("messages", { ...message, ...(isBusy && { if_busy: ifBusy }) });
  const pressed = event => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!event.repeat) submit();
  };
  const choice = (label, value, set, options) => html`<select aria-label=${label} value=${value} disabled=${Boolean(why)} onChange=${event => set(event.target.value)}>${options.map(([value, text]) => html`<option value=${value}>${text}</option>`)}</select>`;
  return html`<textarea ref=${box} rows="2" value=${text} disabled=${Boolean(why)} aria-label="Message" dir="auto" placeholder=${why || "Message … Enter sends, Shift+Enter starts a line"} onInput=${event => setText(event.target.value)} onKeyDown=${pressed} />
    <div class="row">
      ${choice("Agent that answers", agent, setAgent, [["", "to the agent that is next"], ...(team?.agents ?? []).map(({ name }) => [name, `to ${name}`])])}
      ${isBusy && choice("While an agent works", ifBusy, setIfBusy, [["queue", "after this step"], ["interrupt", "interrupt this step"]])}
      <span class="grow"></span>
      <${ActionButton} action="interrupt" why=${whyNot("interrupt", task.status, can)} disabled=${state.busy} onClick=${() => send("interrupt", message || {}, "?wait=1")}>${message ? "Interrupt with this" : "Interrupt"}<//>
      <${ActionButton} action="send" why=${why || (message ? "" : "the message is empty")} disabled=${state.busy} class="primary" onClick=${submit}>Send<//>
    </div>
    <${Problem} problem=${state.problem} retry=${state.retry} />`;
}

const text = title => ({ title, type: "string" });

function Stop(props) {
  const [send, state] = useControl(props, props.onClose);
  return html`<${Ask} ...${props} title="Stop this task" kind="danger" state=${state} schema=${{ properties: { reason: text("Reason") } }} submit=${body => send("stop", body, "?wait=1")}>
    <p>It ends now, as cancelled, and cannot continue. Text that an agent has written so far stays.</p>
  <//>`;
}

const LIMITS = { max_steps: "Steps", max_tokens: "Tokens", max_tokens_in: "Input tokens", max_tokens_out: "Output tokens", max_calls: "Tool calls", max_cost: "Cost", max_seconds: "Seconds" };

/** Return the limits that differ from the present ones; null removes a limit. Pure. */
export const changedLimits = (now, wanted) => Object.fromEntries(Object.keys(LIMITS).map(name => [name, wanted[name] ?? null]).filter(([name, value]) => value !== now[name]));

function LimitChange(props) {
  const { data, problem, reload } = useLoad(() => request(taskPath(props.taskId, "usage")), [props.taskId]);
  const [send, state] = useControl(props, props.onClose);
  if (!data) return html`<${Problem} problem=${problem} retry=${reload} />`;
  const { total, limits } = data;
  const used = { ...total, tokens: total.tokens_in + total.tokens_out, seconds: null };
  const properties = Object.entries(LIMITS).map(([name, title]) => {
    const spent = used[name.slice(4)];
    return [name, { title, type: /cost|seconds/.test(name) ? "number" : "integer", default: limits[name] ?? undefined, description: spent == null ? "" : `${number(spent)} used` }];
  });
  const check = wanted => (Object.values(wanted).some(value => value <= 0) ? "a limit is more than 0" : Object.keys(changedLimits(limits, wanted)).length ? "" : "nothing is changed");
  return html`<${Ask} ...${props} title="Change limits" state=${state} schema=${{ properties: Object.fromEntries(properties), required: ["max_steps"] }} check=${check} submit=${wanted => send("limits", { limits: changedLimits(limits, wanted) }, "?wait=1")}>
    <p class="hint">They apply from the next step on. An empty field is no limit. A task that is paused at a limit continues.</p>
  <//>`;
}

function Fork({ taskId, task, seq, ...props }) {
  const { data, problem } = useLoad(() => request("v1/teams"), []);
  const [run, state] = useDecision(({ task_id: id }) => {
    props.onClose();
    location.hash = `#/tasks/${encodeURIComponent(id)}`;
  });
  if (!data) return html`<${Problem} problem=${problem} />`;
  const names = (title, list = []) => ({ title, enum: list.map(({ name, id = name }) => id) });
  const schema = value => {
    const team = data.teams.find(({ name }) => name === (value.team ?? task.team));
    return { properties: { seq: { title: "Last copied step", type: "integer", default: seq }, message: text("Message"), team: names("Team", data.teams), agent: names("Agent", team?.agents), model: names("Model", team?.models) }, required: ["seq"] };
  };
  return html`<${Ask} ...${props} title="Fork this task" label="Fork" state=${state} schema=${schema} submit=${body => run(taskPath(taskId, "fork"), body)}>
    <p class="hint">A new task begins with the steps up to this one. This task stays as it is; tool calls of copied steps are not run again.</p>
  <//>`;
}
