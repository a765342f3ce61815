// call_actions: what a person or client can do for a tool call that waits, and who has decided what on it.
//
//   approval: approve (with other arguments), deny      client tool: answer      unknown outcome: resolve
//   another decision was first: 409 ─► the receipt of its item, and the step that it became, say who decided what

import { html, useEffect, useState } from "../vendor/preact.js";
import { post, request, taskPath } from "./api.js";
import { ActionButton, Ask, useDecision } from "./decision.js";
import { clock, json } from "./format.js";
import { Receipt, useReceipt } from "./receipt.js";
import { isExact, isObject } from "./schema_form.js";
import { Hostile, Problem } from "./ui.js";

const REASON = { title: "Reason", type: "string" };
const BUTTONS = {
  approval: [["approve", "Approve", "primary"], ["edit", "Edit and approve …"], ["deny", "Deny …", "danger"]],
  answer: [["answer", "Answer …", "primary"]],
  resolution: [["resolve", "Resolve …", "primary"]],
};

/** `wants` is "approval", "answer" or "resolution", and `change` how the tool changed; by default both follow from `task`. */
export function CallActions({ taskId, call, task, wants = wantOf(task, call), change = changeOf(task, call), can }) {
  const [sent, setSent] = useState(null);
  const [dialog, open] = useState("");
  const [run, state] = useDecision(() => open(""));
  const send = (action, body) => run(taskPath(taskId, "calls", call.id, action), body, async (path, given, key) => {
    const resolves = action === "resolve"; // the items of the others are named after the call
    const itemId = resolves ? key : `${change ? "change" : action === "answer" ? action : "verdict"}-${call.id}`;
    const refused = await post(path, resolves ? { ...given, item_id: key } : given).then(() => null, problem => problem);
    if (refused && refused.status !== 409) throw refused;
    setSent({ action, itemId, refused });
  });
  const scope = wants === "answer" ? "control" : "approve";
  const why = can(scope) ? "" : `your key lacks the scope ${scope}`;
  const Asked = { edit: Edit, deny: Deny, answer: Answer, resolve: Resolve }[dialog];
  const decided = decisionIn(task?.steps[call.resultSeq], call.id);
  return html`
    ${change && html`<${Change} ...${change} />`}
    ${!sent && wants && html`<div class="row">${BUTTONS[wants].map(([action, text, kind]) => (action !== "edit" || !change) && html`
      <${ActionButton} action=${action} why=${why} class=${kind} disabled=${state.busy} onClick=${() => (action === "approve" ? send(action, {}) : open(action))}>${text}<//>`)}</div>`}
    ${Asked ? html`<${Asked} taskId=${taskId} task=${task} call=${call} state=${state} send=${send} onClose=${() => open("")} />` : html`<${Problem} problem=${state.problem} retry=${state.retry} />`}
    ${sent ? html`<${Sent} taskId=${taskId} callId=${call.id} ...${sent} decided=${decided} runs=${runsAlone(task, call)} />` : decided && html`<p class="hint"><${Decided} ...${decided} /></p>`}`;
}

/** Return what a call of the task waits for: "approval", "answer", "resolution" or "". */
export function wantOf(task, call) {
  if (!task?.waitingCalls.includes(call.id) || call.result) return "";
  if (task.status === "client_tool_turn") return "answer";
  return task.status !== "approval" ? "" : call.unknown && !changeOf(task, call) ? "resolution" : "approval";
}

/** Return true if the call runs. Where a step has other calls, those may run instead. */
const runsAlone = (task, call) => task?.status === "running" && !call.result && [...task.calls.values()].filter(({ stepId }) => stepId === call.stepId).length === 1;
const changeOf = (task, call) => task?.changes.find(change => change.call_id === call.id);

const Edit = ({ call, send, ...props }) => html`<${Ask} ...${props} title=${`Approve ${call.tool} with other arguments`} label="Approve" schema=${{ properties: { args: { title: "Arguments", default: call.args }, reason: REASON }, required: ["args"] }}
  check=${({ args }) => (isObject(args) ? "" : "Arguments are a JSON object")} submit=${body => send("approve", body)}>
  ${!isExact(call.args) && html`<p class="problem">A browser cannot keep all numbers of these arguments exactly: check them.</p>`}
<//>`;

const Deny = ({ call, send, ...props }) => html`<${Ask} ...${props} title=${`Deny ${call.tool}`} label="Deny" kind="danger" schema=${{ properties: { reason: { ...REASON, description: "The agent reads it." } } }} submit=${body => send("deny", body)} />`;

const Resolve = ({ call, send, ...props }) => html`<${Ask} ...${props} title=${`Resolve ${call.tool}`} label="Resolve" schema=${{ properties: { happened: { title: "It had its effect", type: "boolean" }, result: { title: "Result", description: "If it is known: JSON or text." } }, required: ["happened"] }} submit=${body => send("resolve", body)}>
  <p class="hint">The outcome is unknown<${Hostile}>${call.unknown && `: ${call.unknown.reason}`}<//>. Find out before you decide. The call is not repeated; without an effect, the agent may call again.</p>
  <${Arguments} args=${call.args} />
<//>`;

function Answer({ taskId, task, call, send, ...props }) {
  const [tool, setTool] = useState(() => task && (declaredTool(task.steps, call) ?? {}));
  useEffect(() => {
    if (!tool) request(`${taskPath(taskId, "history")}?limit=1`).then(({ steps }) => setTool(declaredTool(steps, call) ?? {}), () => setTool({}));
  }, []);
  if (!tool) return null;
  const properties = {
    status: { title: "Status", enum: ["success", "error", "declined"], default: "success" },
    result: { description: "JSON or text", ...tool.output_schema, title: "Result" },
    error: { title: "Why there is no result", type: "string" },
  };
  return html`<${Ask} ...${props} title=${`Answer ${call.tool}`} label="Answer" schema=${{ properties, required: ["status"] }} submit=${body => send("answer", body)}>
    <${Hostile} tag="p" class="hint">${tool.description}<//><${Arguments} args=${call.args} schema=${tool.input_schema} />
  <//>`;
}

/** Return the client tool of a call, of the newest message before it that declares client tools. */
const declaredTool = (steps, { seq = Infinity, tool }) => steps.findLast(step => step?.seq <= seq && step.metadata.client_tools?.length)?.metadata.client_tools.find(({ name }) => name === tool);

const Arguments = ({ args, schema }) => html`<dl class="facts">${Object.entries(args).slice(0, 100).map(([name, value]) => html`
  <dt><${Hostile}>${name}<//></dt><dd><${Hostile} tag="pre">${json(value, 4000)}<//> <${Hostile} class="hint">${describe(schema, name)}<//></dd>`)}</dl>`;

function describe(schema, name) {
  const about = isObject(schema?.properties) && Object.hasOwn(schema.properties, name) ? schema.properties[name]?.description : "";
  return typeof about === "string" ? about.slice(0, 600) : "";
}

/** The receipt of a decision; or, if another one was first, who decided what. */
function Sent({ taskId, callId, action, itemId, refused, decided, runs }) {
  const receipt = useReceipt(taskId, itemId);
  const [found, setFound] = useState(null);
  const seq = receipt?.applied_at_seq;
  useEffect(() => {
    if (refused && seq != null) request(`${taskPath(taskId, "history")}?start=${seq}&limit=1`).then(({ steps }) => setFound(decisionIn(steps[0], callId)), () => {});
  }, [seq]);
  if (!refused) return receipt && html`<${Receipt} key=${seq} taskId=${taskId} label=${action} receipt=${receipt} />`;
  const first = decided ?? found ?? (receipt && { how: runs ? "approved this call, and it runs" : "decided on this call", by: receipt.by });
  return html`<div class="banner" role="alert" data-conflict>
    Your decision does not count: ${first ? html`<${Decided} ...${first} at=${receipt && Date.parse(receipt.requested_at)} />` : html`<${Hostile}>${refused.message}<//>`}
  </div>`;
}

/** Return {how, by, reason, args} of the decision on a call, from the step of its result, or null. */
export function decisionIn(step, callId) {
  const { approvals = {}, resolved = {}, resolved_by: by = {} } = step?.metadata ?? {};
  if (Object.hasOwn(approvals, callId)) {
    const { approved, ...rest } = approvals[callId];
    return { ...rest, how: `${approved ? "approved" : "denied"} this call${rest.args ? " with other arguments" : ""}` };
  }
  if (!Object.hasOwn(resolved, callId)) return null;
  return { by: by[callId], how: { answer: "answered this call", change: "decided on the change of its tool" }[resolved[callId].split("-")[0]] ?? "resolved this call" };
}

const Decided = ({ how, by, at, reason, args }) => html`<${Hostile} tag="b">${by || "another person"}<//> ${how} ${at && `at ${clock(at)}`}<${Hostile}>${reason && `: ${reason}`}<//>
  ${args && html`<${Hostile} tag="pre">${json(args, 4000)}<//>`}`;

const Change = ({ server, tool, parts }) => html`<div class="change">
  <p>The tool <${Hostile} tag="code">${tool}<//> of <${Hostile} tag="code">${server}<//> has changed since the task began. The call did not run. Approve or deny the change.</p>
  ${parts.map(({ part, before, after }) => html`<p class="hint">${part}</p><${Hostile} tag="pre">${before || "unknown before"}<//><${Hostile} tag="pre" class="after">${after}<//>`)}
</div>`;
