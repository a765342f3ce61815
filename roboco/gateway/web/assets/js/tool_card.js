// tool_card: a tool call: its arguments, state, result, effect, duration and sub-task.

import { html } from "../vendor/preact.js";
import { CallActions } from "./controls.js";
import { duration, json } from "./format.js";
import { Hostile, useClock } from "./ui.js";

const SHORT = 240; // characters that are shown unfolded
const EFFECTS = {
  pure: "It only computes or reads.",
  idempotent: "It may run twice with one effect.",
  irreversible: "It must not run twice.",
};

export function ToolCard({ taskId, task, call, effect, can }) {
  const { kind, text } = stateOf(task, call);
  const now = useClock(kind === "run" ? 500 : 0);
  const begun = call.subTask?.at ?? call.at ?? task.turns.get(call.stepId)?.at;
  const ms = call.result ? call.result.runtime_ms || call.endedAt - call.at : kind === "run" && begun ? Math.max(0, now - begun) : null;
  const child = call.subTask?.id ?? (call.tool === "delegate" ? call.result?.result?.task_id : null);
  return html`<div class="card" data-call=${call.id} data-state=${kind}>
    <header>
      <${Hostile} class="mono name">${call.tool}</${Hostile}>
      ${EFFECTS[effect] && html`<span class="tag ${effect}" data-effect=${effect} title=${EFFECTS[effect]}>${effect}</span>`}
      <span class="state">${text}</span>
      ${ms != null && html`<span class="dim" data-duration>${duration(ms)}</span>`}
      <span class="grow"></span>
      ${typeof child === "string" && html`<a data-sub-task href=${`#/tasks/${encodeURIComponent(child)}`}>Sub-task${call.subTask ? html` of <${Hostile}>${call.subTask.team}</${Hostile}>` : ""} →</a>`}
    </header>
    ${Object.keys(call.args ?? {}).length > 0 && html`<${Value} name="Arguments" value=${call.args} />`}
    ${call.unknown && html`<p class="warn"><${Hostile}>${call.unknown.reason}</${Hostile}></p>`}
    ${call.result && (call.result.is_error ? html`<${Value} name="Error" value=${call.result.error ?? call.result.result} open />` : html`<${Value} name="Result" value=${call.result.result} />`)}
    <${CallActions} taskId=${taskId} call=${call} task=${task} can=${can} />
  </div>`;
}

/** Return {kind, text} of a call: ok, bad, wait, warn, run or none. */
export function stateOf(task, call) {
  if (call.result) return call.result.is_error ? { kind: "bad", text: "failed" } : { kind: "ok", text: "done" };
  if (call.unknown) return { kind: "warn", text: "outcome unknown" };
  if (task.waitingCalls.includes(call.id)) return { kind: "wait", text: task.status === "approval" ? "waits for approval" : "waits for the client" };
  if (task.endedAt) return { kind: "none", text: "no result" };
  if (task.status !== "running") return { kind: "wait", text: "waits" };
  return { kind: "run", text: call.seq == null ? "called" : "runs" };
}

/** JSON or text of a tool: a short one on a line, a long one folded. */
function Value({ name, value, open }) {
  const line = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  const text = (content, scrolls) => html`<${Hostile} tag="pre" data-value=${name.toLowerCase()} tabindex=${scrolls ? 0 : null}>${content}</${Hostile}>`;
  if (line.length <= SHORT) return html`<div class="value short"><span>${name}</span>${text(line)}</div>`;
  return html`<details class="value" open=${open}>
    <summary>${name} <${Hostile} class="mono peek">${line.slice(0, 200)}</${Hostile}></summary>
    ${text(json(value), true)}
  </details>`;
}
