// controls: what a user can do with a task and its calls: button ─► form, if it needs one ─► POST ─► receipt.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { actionAddress, newKey, post, request, taskPath } from "./api.js";
import { clock, duration, json, plural, statusName } from "./format.js";
import { facts } from "./inspector.js";
import { ENDED } from "./task_state.js";
import { addressOf, Dialog, Problem, useAction, useClock, useLoad } from "./ui.js";

const MAX = 80; // fields of a form, options of a field
const BEYOND = /ref$|Of$|^(if|not|patternProperties)$/i; // no form has these
export const isObject = value => Object(value) === value && !Array.isArray(value);

/** Return the field of a value: {kind, title, required, text ...}, or with fields. A list is JSON. The schema may be hostile. */
export function formOf(schema, value, name = "", required = true, left = { fields: MAX }) {
  const { title, description, default: given, properties, ...rest } = isObject(schema) ? schema : {};
  const short = text => (typeof text === "string" ? text.slice(0, 600) : "");
  value ??= given;
  const text = value == null ? "" : JSON.stringify(value, null, 2);
  const field = { kind: "json", name, title: short(title) || name, hint: short(description), required, text };
  if (--left.fields < 0 || Object.keys(rest).some(key => BEYOND.test(key))) return field;
  const kind = short(rest.type);
  const options = { null: [null], boolean: [true, false] }[kind] ?? ("const" in rest ? [rest.const] : rest.enum);
  if (Array.isArray(options) && options.length <= MAX) {
    const texts = options.map(one => JSON.stringify(one));
    return { ...field, kind: "option", text: texts.find(one => one === JSON.stringify(value)) ?? "", options: texts };
  }
  if (kind === "string") return { ...field, kind, text: typeof value === kind ? value : text };
  if (kind === "number" || kind === "integer") return { ...field, kind };
  if (kind === "array" && rest.items?.type === "string") return { ...field, kind: "list", text: String(value).split(",").length > value?.length ? text : [].concat(value ?? []).join(", ") };
  const names = kind === "object" && isObject(properties) ? Object.keys(properties) : [];
  const needed = [].concat(rest.required ?? []);
  if (!names.length || names.length > MAX || !needed.every(name => names.includes(name))) return field;
  const own = new Map(isObject(value) ? Object.entries(value) : []);
  return { ...field, kind, fields: names.map(name => formOf(properties[name], own.get(name), name, needed.includes(name), left)) };
}

/** Return the value of a field, or undefined if it is left out. Throws an Error that names the field. */
export function valueOf({ kind, title, required, fields, options, text }, path = []) {
  const at = [...path, title];
  if (!required && isBlank({ fields, text })) return undefined;
  if (kind === "string") return text;
  if (fields) return Object.fromEntries(fields.map(one => [one.name, valueOf(one, at)]).filter(([, value]) => value !== undefined));
  const value = kind === "list" && !/^\s*\[/.test(text) ? text.split(",").map(one => one.trim()) : parse(text);
  const fits = { json: true, list: Array.isArray(value), integer: Number.isInteger(value), option: options?.includes(text) }[kind] ?? typeof value === kind;
  const mistake = !text.trim() ? "is missing" : value === undefined ? "is not JSON" : !fits ? `is no ${kind}` : isExact(value) ? "" : "is too large to be exact";
  if (mistake) throw new Error(`${at.filter(Boolean).join(" › ") || "the value"} ${mistake}`);
  return value;
}

const isBlank = ({ fields, text }) => (fields ? fields.every(isBlank) : !text.trim());
const isExact = value => (Object(value) === value ? Object.values(value).every(isExact) : typeof value === "string" || Math.abs(value) <= Number.MAX_SAFE_INTEGER);

/** What does not begin as JSON is a text, so that people need no quotes. */
function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return /^\s*["[{]/.test(text) ? undefined : text;
  }
}

export function Field({ field, changed }) {
  const { kind, name, title, hint, required, fields, options } = field;
  const label = html`<bdi>${title} <small class="dim">${required && "required"} ${hint} ${kind === "list" && "Several: a, b"}<//><//>`;
  if (fields) return html`<fieldset><legend>${label}<//>${fields.map(one => html`<${Field} field=${one} changed=${changed} />`)}<//>`;
  const tag = options ? "select" : /^[ni]/.test(kind) ? "input" : "textarea";
  return html`<label>${label}<${tag} name=${name} value=${field.text} dir="auto" onInput=${event => changed((field.text = event.target.value))}>
    ${options && ["", ...options].map(one => html`<option value=${one}>${{ true: "yes", false: "no" }[one] ?? one.replace(/^"(.*)"$/, "$1").slice(0, 600)}<//>`)}<//><//>`;
}

const LIMITS = ["steps", "tokens", "tokens_in", "tokens_out", "calls", "cost", "seconds"].map(name => `max_${name}`);

/** Return the limits that differ from the present ones; null removes a limit. */
export const changedLimits = (now, wanted) =>
  Object.fromEntries(LIMITS.map(name => [name, wanted[name] ?? null]).filter(([name, value]) => value !== now[name]));

const OPEN = ["queued", "running", "approval", "client_tool_turn"];
const TEXT = { type: "string" };
const ANY = { description: "JSON or text" };
const askReason = () => ({ properties: { reason: TEXT } });

async function askLimits({ taskId }, more) {
  const { limits } = await request(taskPath(taskId, "usage"));
  const numbers = LIMITS.map(name => [name, { type: "number", default: limits[name] }]);
  const body = ({ reason, ...wanted }) => ({ reason, limits: changedLimits(limits, wanted) });
  return { properties: { ...more, ...Object.fromEntries(numbers) }, body };
}

// `statuses` in which a control is possible: else until the end. `form` returns the properties of its arguments.
const CONTROLS = {
  send: { path: "messages", kind: "primary" },
  interrupt: { statuses: OPEN },
  pause: { statuses: OPEN, holds: true },
  step: { statuses: ["queued", "running", "paused"], holds: true },
  resume: { statuses: ["paused"], holds: true },
  limits: { hint: "They count from the next step on. An empty field is no limit.", form: askLimits },
  retry: {
    kind: "primary", statuses: ["failed"], hint: "A new task continues after the last good step of this one. No call runs again.",
    form: given => askLimits(given, { reason: TEXT }),
  },
  fork: {
    hint: "A new task begins with the steps up to this one. Their calls are not run again.",
    async form({ task, seq }) {
      const { teams } = await request("v1/teams");
      const { agents = [], models = [] } = teams.find(({ name }) => name === task.team) ?? {};
      const names = list => ({ enum: list.map(({ name, id = name }) => id) });
      return { properties: { seq: { type: "integer", default: seq }, message: TEXT, agent: names(agents), model: names(models) } };
    },
  },
  stop: { kind: "danger", hint: "The task ends now. Its text stays.", form: askReason },
  approve: { scope: "approve", kind: "primary" },
  edit: { scope: "approve", path: "approve", form: ({ call }) => ({ properties: { args: { default: call.args }, reason: TEXT } }) },
  deny: { scope: "approve", kind: "danger", hint: "The agent reads the reason.", form: askReason },
  answer: {
    kind: "primary",
    async form({ taskId, task, call }) {
      const { steps } = task ?? (await request(`${taskPath(taskId, "history")}?limit=1`));
      const tools = steps.flatMap(step => step?.metadata.client_tools ?? []);
      const { description: hint, output_schema: schema } = tools.findLast(({ name }) => name === call.tool) ?? {};
      const status = { enum: ["success", "error", "declined"], default: "success" };
      return { hint, properties: { status, result: { ...ANY, ...schema, title: "result" }, error: TEXT } };
    },
  },
  resolve: {
    scope: "approve", kind: "primary", hint: "Find out if the call had its effect. It is not repeated.",
    form: () => ({ properties: { happened: { type: "boolean" }, result: ANY } }),
  },
};

export function whyNot(name, status, can) {
  const { scope = "control", statuses = [status] } = CONTROLS[name];
  if (!can(scope)) return `your key lacks the scope ${scope}`;
  if (ENDED.has(status) && !["fork", "retry"].includes(name)) return "the task has ended";
  return statuses.includes(status) ? "" : `not possible with the status: ${statusName(status)}`;
}

const labelOf = name => name[0].toUpperCase() + name.slice(1);

/** Return [button, rest, run]: button(name, body) of a control; `rest` is its form, problem and receipts. */
function useControls({ can, done, ...given }) {
  const { taskId, task, call, change } = given;
  const [asked, ask] = useState(null);
  const [receipts, setReceipts] = useState([]);
  const last = useRef();
  const [run, { problem }] = useAction(async (name, body) => {
    const { path = name, form, holds } = CONTROLS[name];
    if (form && !body) return ask({ ...CONTROLS[name], ...(await form(given)), name });
    const content = JSON.stringify([name, body]);
    if (content !== last.current?.content) last.current = { content, key: newKey() };
    const sent = last.current; // the same again has the same key, and so one effect, also after an error
    const own = name === "resolve" ? { item_id: sent.key } : {};
    const found = await post(taskPath(taskId, ...(call ? ["calls", call.id] : []), path), { ...body, ...own }, call ? "" : sent.key);
    setTimeout(() => (sent.content = ""), 500); // until then it is part of a double click
    ask(null);
    done?.(body);
    if (["fork", "retry"].includes(name)) return (location.hash = addressOf(found.task_id));
    const id = found.item_id ?? own.item_id ?? `${change ? "change" : name === "answer" ? name : "verdict"}-${call.id}`;
    setReceipts(before => [{ id, taskId, holds, name }, ...before.filter(one => one.id !== id)].slice(0, 4));
  });
  const button = (name, body) => {
    const { kind, form } = CONTROLS[name];
    const why = whyNot(name, task?.status, can);
    return html`<button type="button" data-action=${name} class=${kind} title=${why || null} disabled=${why || body === null} onClick=${() => run(name, body)}>${labelOf(name)}${form && " …"}<//>`;
  };
  const trouble = html`<${Problem} problem=${problem} />`;
  const rest = html`${asked ? html`<${Ask} ...${asked} call=${call} run=${run} onClose=${() => ask(null)}>${trouble}<//>` : trouble}
    <div role="log" aria-label="Receipts">${receipts.map(one => html`<${Receipt} key=${one.id} ...${one} />`)}<//>`;
  return [button, rest, run];
}

function Ask({ name, path = name, hint, kind, properties, body = value => value, call, run, onClose, children }) {
  const [form] = useState(() => formOf({ type: "object", properties }));
  const [problem, changed] = useState({});
  const submit = event => {
    event.preventDefault();
    try {
      run(name, body(valueOf(form)));
    } catch (mistake) {
      changed(mistake);
    }
  };
  return html`<${Dialog} title=${`${labelOf(path)} ${call?.tool ?? ""}`} onClose=${onClose}><form onSubmit=${submit}>
    <bdi class="hint">${hint}<//>${call && facts({ args: call.args })}
    <${Field} field=${form} changed=${() => changed({})} />
    <p role="alert">${problem.message}<//>${children}
    <div class="row"><button type="button" onClick=${onClose}>Cancel<//><button class=${kind} data-action="confirm">${labelOf(path)}<//><//>
  <//><//>`;
}

export function receiptLines({ requested_at, seen_at, closed_at, chunks_after: chunks, expired, applied_at_seq: seq, effect }, holds) {
  const moment = (text, time, before) => {
    const after = Date.parse(time) - Date.parse(before);
    return time && `${text} ${!before ? clock(Date.parse(time)) : after < 0 ? "(clocks differ)" : `+${duration(after)}`}`;
  };
  const applied = seq == null ? (holds ? "counts from now on" : "not applied yet") : `${holds ? "counted until" : "applied at"} step ${seq}`;
  return [
    moment("requested", requested_at),
    moment("seen by the worker", seen_at, requested_at),
    moment("connection closed", closed_at, seen_at ?? requested_at),
    chunks != null && `${plural(chunks, "chunk")} after the request`,
    expired ? "expired: the task ended before it was applied" : applied,
    effect?.replace("_", " "),
  ].filter(Boolean);
}

function Receipt({ taskId, id, name, holds }) {
  const [receipt, set] = useState();
  useEffect(() => {
    let timer;
    const read = async delay => {
      const found = await request(taskPath(taskId, "receipts", id)).catch(problem => problem);
      if (found.item_id) set(found);
      const final = found.expired || found.applied_at_seq != null || found.status === 404; // the task had ended
      if (timer && !final) timer = setTimeout(read, delay, Math.min(4000, delay * 2));
    };
    timer = setTimeout(read, 0, 150);
    return () => clearTimeout(timer, (timer = 0));
  }, []);
  return receipt && html`<ol class="row hint" data-receipt=${id}><b>${labelOf(name)}<//>
    ${receiptLines(receipt, holds).map(line => html`<li>${line}<//>`)}<bdi>${receipt.by}<//><//>`;
}

const OF_OPERATORS = { "What if": "start_what_if", Export: "export_task", Erase: "erase_task" };

export function Controls({ taskId, task, summary, ready, selected, can }) {
  const [text, setText] = useState("");
  const done = body => setText(now => (now === body?.message ? "" : now));
  const [button, rest, run] = useControls({ taskId, task, seq: selected ?? task.steps.length - 1, can, done });
  const message = text.trim() ? { message: text } : null;
  const pressed = event => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (message) run("send", message);
  };
  return html`<section class="controls" aria-label="Controls">
    ${ENDED.has((ready ? task : summary)?.status) ? html`<div class="row"><span>The task has ended.<//> ${task.status === "failed" && (summary?.retried_as ? html`<a href=${addressOf(summary.retried_as)}>Retried<//>` : button("retry"))} ${button("fork")}<//>` : html`
      <textarea value=${text} aria-label="Message" dir="auto" placeholder="Message (Enter sends, Shift+Enter starts a line)" onInput=${event => setText(event.target.value)} onKeyDown=${pressed} />
      <div class="row">${button("send", message)} ${button("interrupt", message ?? {})} ${["pause", "step", "resume", "limits", "fork", "stop"].map(name => button(name))}<//>`}
    ${rest}
    ${can("operate") && html`<div class="row hint">${Object.entries(OF_OPERATORS).map(([text, name]) => html`<a href=${actionAddress(name, { task_id: taskId, ...(selected != null && { seq: selected }) })}>${text} …<//>`)}<//>`}
  <//>`;
}

const OF_CALL = { approval: ["approve", "edit", "deny"], answer: ["answer"], resolution: ["resolve"] };

/** `wants` is a name of OF_CALL, and `change` how the tool has changed. */
export function CallActions({ taskId, call, task, reason, wants = wantOf(task, call), change = changeOf(task, call), can }) {
  const [button, rest] = useControls({ taskId, task, call, change, can });
  const decided = decisionIn(task?.steps[call.resultSeq], call.id);
  return html`
    ${change && html`<p>The tool has changed since the task began; the call did not run. Approve or deny it.<//>${facts(change)}`}
    ${wants && html`<${TimeLeft} task=${task ?? { reason }} />`}
    ${wants && html`<div class="row">${OF_CALL[wants].map(name => (name !== "edit" || !change) && button(name))}<//>`}
    ${rest}${decided && facts(decided)}`;
}

export const PendingCalls = ({ taskId, reason, pending: { unapproved, unanswered, unknown, changes, sub_tasks }, can }) =>
  Object.entries({ approval: unapproved, answer: unanswered, resolution: unknown }).map(([wants, calls]) =>
    calls.map(({ id, tool_name: tool, args }) => html`<div key=${id}><code dir="auto">${tool} ${json(args, 400)}<//>
      <${CallActions} taskId=${sub_tasks[id] ?? taskId} task=${null} reason=${reason} wants=${wants} can=${can} change=${changes[id]} call=${{ id, tool, args, result: null }} /><//>`));

export function SubCalls({ taskId, can }) {
  const { data } = useLoad(() => request(taskPath(taskId, "pending")), [], 3000);
  return data && html`<${PendingCalls} taskId=${taskId} pending=${data} can=${can} />`;
}

/** Return how long the call of a waiting task still waits, and what happens then, from its reason, or "". */
export function timeLeft({ reason }, now) {
  const [, day, time, then = ""] = /; until (\S+) (\S+) UTC(, then [^;…]+)?/.exec(reason) ?? [];
  return day ? `${duration(Date.parse(`${day}T${time}Z`) - now)} left${then}` : "";
}

export function TimeLeft({ task }) {
  const text = timeLeft(task, useClock(1000));
  return text && html`<bdi role="timer" class="paused">◷ ${text}<//>`;
}

const changeOf = (task, call) => task?.changes.find(change => change.call_id === call.id);

function wantOf(task, call) {
  if (!task?.waitingCalls.includes(call.id) || call.result) return "";
  if (task.status !== "approval") return task.status === "client_tool_turn" ? "answer" : "";
  return call.unknown && !changeOf(task, call) ? "resolution" : "approval";
}

/** Return the decision on a call, from the step of its result: {approved, reason, args, by} or {decision, by}. */
export function decisionIn(step, id) {
  const { approvals = {}, resolved = {}, resolved_by: by = {} } = step?.metadata ?? {};
  if (Object.hasOwn(approvals, id)) return approvals[id];
  return Object.hasOwn(resolved, id) ? { decision: resolved[id], by: by[id] } : null;
}
