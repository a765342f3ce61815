// header: what a task is, how far it is, and what it has used of its limits.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { request, taskPath } from "./api.js";
import { duration, money, number, tokens } from "./format.js";
import { WAITING } from "./task_state.js";
import { Hostile, Status, useClock, useLoad } from "./ui.js";

const NEAR = 0.8; // of a limit

/** Return the limits of a task and the effects of its tools, again after each change of limits. */
export function useLimits(taskId, task) {
  const kept = useRef({});
  const { data } = useLoad(() => request(taskPath(taskId, "usage")), [taskId, task.limitsAt]);
  if (data) kept.current = data;
  return { limits: kept.current.limits ?? {}, effects: kept.current.effects ?? {} };
}

/** Return {all, waiting}: milliseconds since the start, and those in which the task waited for a person or client. */
export function timesOf(task, now) {
  if (!task.startedAt) return { all: 0, waiting: 0 };
  const end = task.endedAt ?? Math.max(now, task.statusAt ?? 0);
  let waiting = 0;
  task.statuses.forEach(({ status, at }, i) => {
    if (WAITING.has(status)) waiting += Math.max(0, (task.statuses[i + 1]?.at ?? end) - at);
  });
  return { all: Math.max(0, end - task.startedAt), waiting };
}

export function Header({ taskId, task, summary, limits }) {
  const now = useClock(task.endedAt || !task.startedAt ? 0 : 1000);
  const { all, waiting } = timesOf(task, now);
  const begun = task.steps.length > 0;
  const used = task.usage ?? (begun ? task.used : (summary ?? task.used));
  const steps = begun ? task.steps.length : (summary?.steps ?? 0);
  const title = summary?.title || taskId;
  const parent = task.steps[0]?.metadata.parent;
  const total = used.tokens_in + used.tokens_out;
  useEffect(() => {
    document.title = `${title} · Roboco`;
    return () => (document.title = "Roboco");
  }, [title]);
  return html`<header class="task-header">
    <div class="row">
      <${Hostile} tag="h1">${title}</${Hostile}>
      <${Status} value=${begun ? task.status : (summary?.status ?? task.status)} />
    </div>
    ${task.reason && html`<${Hostile} tag="p" class="task-reason dim" tabindex=${task.reason.length > 200 ? 0 : null}>${task.reason}</${Hostile}>`}
    <dl class="metrics">
      <${Fact} name="Team"><${Hostile}>${task.team || summary?.team}</${Hostile}></${Fact}>
      <${Fact} name="Time" hint=${waiting ? `working ${duration(all - waiting)}, waiting ${duration(waiting)}` : ""}>
        <span data-elapsed>${duration(all)}</span>${waiting > 0 && html` <small class="dim">${duration(all - waiting)} working · ${duration(waiting)} waiting</small>`}
      </${Fact}>
      <${Fact} name="Steps" used=${steps} limit=${limits.max_steps} show=${number} />
      <${Fact} name="Tokens" used=${total} limit=${limits.max_tokens} show=${tokens} hint=${`${number(used.tokens_in)} in, ${number(used.tokens_out)} out`} />
      <${Fact} name="Cost" used=${used.cost} limit=${limits.max_cost} show=${money} />
      <${Fact} name="Id"><${CopyId} id=${summary?.task_id ?? taskId} /></${Fact}>
      ${parent?.child && parent.child === summary?.task_id && html`<${Fact} name="Works for"><a data-parent href=${`#/tasks/${encodeURIComponent(parent.task_id)}/steps/${Number(parent.at_seq)}`}><${Hostile}>${parent.task_id}</${Hostile}></a></${Fact}>`}
    </dl>
  </header>`;
}

/** A fact, or an amount with its limit as a bar. */
function Fact({ name, hint, used, limit, show, children }) {
  const share = limit ? Math.min(1, used / limit) : 0;
  return html`<div data-fact=${name.toLowerCase()} title=${hint}>
    <dt>${name}</dt>
    <dd>${children ?? html`${show(used)}${limit != null && html`<small class="dim"> of ${show(limit)}</small>`}`}
      ${limit != null && html`<span class="bar ${share >= NEAR ? "near" : ""}" role="meter" aria-label=${`${name} of the limit`} aria-valuemin="0" aria-valuemax=${limit} aria-valuenow=${Math.min(used, limit)}><span style=${{ width: `${share * 100}%` }}></span></span>`}
    </dd>
  </div>`;
}

function CopyId({ id }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(id);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`<code class="id" title=${id}>${id}</code>${navigator.clipboard && html`<button type="button" class="quiet" data-action="copy" onClick=${copy} aria-label="Copy the id">${copied ? "copied" : "copy"}</button>`}`;
}
