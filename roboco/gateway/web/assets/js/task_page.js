// task_page: a task: its header, lanes, conversation, controls and the inspector of a step.

import { html, useEffect, useState } from "../vendor/preact.js";
import { actionAddress, request, taskPath } from "./api.js";
import { Controls, SubCalls } from "./controls.js";
import { Conversation, Lines } from "./conversation.js";
import { duration, money, number, tokens } from "./format.js";
import { Inspector } from "./inspector.js";
import { Lanes } from "./lanes.js";
import { Replay } from "./replay.js";
import { changedState } from "./task_state.js";
import { addressOf, Problem, Status, useClock, useLoad } from "./ui.js";
import { Banners, Integrity, useTask } from "./use_task.js";

export function TaskPage({ taskId, step: named, can }) {
  const { task: current, problem, reload, ...followed } = useTask(taskId);
  const { summary } = followed;
  const at = typeof named === "string" ? current.steps.findIndex(one => one?.step_id === named) : named; // a memory knows its step by its id
  const step = at < 0 ? null : at;
  const [raw, showRaw] = useState(false);
  const [replayed, setReplayed] = useState();
  const { limits = {}, effects, memory_of: owner } = useLoad(() => request(taskPath(taskId, "usage")), [current.limitsAt]).data ?? {};
  const onSelect = seq => {
    if (step == null) location.hash = addressOf(taskId, seq);
    else location.replace(addressOf(taskId, seq));
  };
  const ready = replayed || current.steps.length >= summary?.steps;
  const shared = { ...followed, taskId, task: replayed ?? current, can, limits, effects, owner, ready, selected: step, onSelect };
  if (problem && !summary) return html`<main data-page="task"><h1>Task<//><${Problem} problem=${problem} retry=${reload} /><//>`;
  return html`<main tabindex="-1" data-page="task" class=${`task ${raw ? "raw" : ""}`}>
    <${Header} ...${shared}><button class="quiet" data-action="raw" aria-pressed=${raw} title="Show texts as models wrote them, without the look of Markdown" onClick=${() => showRaw(!raw)}>Raw text<//><//>
    <div>
      <${Problem} problem=${problem} />
      <${Banners} ...${shared} task=${current} />
      ${current.errors.slice(-3).map(({ code, message }) => code !== "events_lost" && html`<p dir="auto" class="problem">${message}<//>`)}
    <//>
    <details class="timeline" open=${innerWidth > 760}><summary>Timeline<//><${Lanes} ...${shared} /><${Replay} ...${shared} onReplay=${setReplayed} /><//>
    <div class="talk"><${Conversation} ...${shared} />${!replayed && current.status === "running" && (current.reason || [...current.calls.values()].some(call => call.subTask && !call.result)) && html`<${SubCalls} ...${shared} />`}${!replayed && html`<${Controls} ...${shared} />`}<//>
    ${step != null && html`<${Inspector} ...${shared} step=${step} onClose=${() => onSelect(null)} />`}
    <${Integrity} ...${shared} task=${current} />
  <//>`;
}

/** What a task is, how far it is, and what it has used of its limits; in a replay, at that moment. */
function Header({ taskId, task, summary = {}, limits, owner, ready, selected, can, children }) {
  const { steps, startedAt, endedAt, past, failures } = task;
  const reason = task.reason || (task.status === "running" && !past && summary.reason);
  const now = useClock(endedAt || !startedAt ? 0 : 1000);
  const known = { ...task, ...task.used, ...task.usage, steps: steps.length, ...(!ready && summary) };
  const title = summary.title || taskId;
  const state = (task.state ??= steps.reduce(changedState, {}));
  const parent = steps[0]?.metadata.parent;
  const amount = (name, used, limit, show) => [name, html`${show(used)}${limit != null && html` of ${show(limit)}
    <meter max=${limit} high=${limit * 0.8} optimum="0" value=${used} aria-label=${`${name} of the limit`} />`}`];
  const facts = [
    ["Team", html`<bdi>${known.team}<//>`],
    ["Time", startedAt && duration((endedAt ?? past?.at ?? now) - startedAt)],
    amount("Steps", known.steps, limits.max_steps, number),
    amount("Tokens", known.tokens_in + known.tokens_out, limits.max_tokens, tokens),
    ["Id", html`<code>${summary.task_id ?? taskId}<//>`],
  ];
  if (known.cost || limits.max_cost) facts.splice(-1, 0, amount("Cost", known.cost, limits.max_cost, cost => money(cost) || "0"));
  const value = steps[0]?.metadata.context?.[owner?.split(".")[1]] ?? "";
  if (owner && can("operate")) facts.push(["Memory", html`<a dir="auto" href=${actionAddress("get_memory", { of: owner, value, tenant: summary.task_id?.split(":").at(-2) ?? "" })}>${value || owner}<//>`]);
  const next = [...failures].find(seq => seq > (selected ?? -1)) ?? [...failures][0];
  if (next != null) facts.push(["Failures", html`<a data-failure href=${addressOf(taskId, next)}>${failures.size}, next: #${next}<//>`]);
  if (parent && parent.child === summary.task_id) facts.push(["Works for", html`<a dir="auto" data-parent href=${addressOf(parent.task_id, Number(parent.at_seq))}>${parent.task_id}<//>`]);
  useEffect(() => {
    document.title = `Roboco · ${title}`;
    return () => void (document.title = "Roboco");
  }, [title]);
  return html`<header>
    <div class="row"><h1 dir="auto">${title}<//><${Status} value=${known.status} /><span class="grow" />${children}<//>
    ${reason && html`<p dir="auto" class="dim" tabindex=${reason.length > 200 ? 0 : null}>${reason}<//>`}
    <dl>${facts.map(([name, value]) => html`<div><dt>${name}<//><dd data-fact=${name}>${value}<//><//>`)}<//>
    ${Object.keys(state).length > 0 && html`<details data-shared><summary>State<//><${Lines} name="Values" value=${state} /><//>`}
  <//>`;
}
