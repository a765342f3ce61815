// task_page: a task: its header, lanes, conversation, controls and the inspector of a step.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { request, taskPath } from "./api.js";
import { Controls } from "./controls.js";
import { Conversation } from "./conversation.js";
import { duration, money, number, tokens } from "./format.js";
import { Inspector } from "./inspector.js";
import { Banners, Integrity } from "./integrity.js";
import { Lanes } from "./lanes.js";
import { Replay } from "./replay.js";
import { Hostile, Problem, Status, useClock, useLoad } from "./ui.js";
import { useTask } from "./use_task.js";

export function TaskPage({ taskId, step, can }) {
  const { task: current, problem, reload, ...followed } = useTask(taskId);
  const { summary } = followed;
  const [replayed, setReplayed] = useState(null);
  const [tab, setTab] = useState("Conversation");
  const usage = useLoad(() => request(taskPath(taskId, "usage")), [taskId, current.limitsAt]).data;
  const { limits = {}, effects } = Object.assign(useRef({}).current, usage); // the last ones, while others are read
  const onSelect = seq => {
    const address = `#/tasks/${encodeURIComponent(taskId)}${seq == null ? "" : `/steps/${seq}`}`;
    if (step == null) location.hash = address;
    else location.replace(address);
  };
  const ready = Boolean(replayed) || current.steps.length >= summary?.steps;
  const shared = { ...followed, taskId, task: replayed ?? current, can, limits, effects, ready, selected: step, onSelect };
  if (problem?.status === 404 && !summary) {
    return html`<main id="main" data-page="task"><${Problem} problem=${{ message: problem.message }} retry=${reload} /><a href="#/">All tasks</a></main>`;
  }
  return html`<main id="main" tabindex="-1" data-page="task" class="task" data-tab=${tab}>
    <${Header} ...${shared} />
    <div>
      <${Problem} problem=${problem} retry=${!summary && reload} />
      <${Banners} ...${shared} task=${current} />
      ${current.errors.filter(({ code }) => code !== "events_lost").slice(-3).map(({ code, message }) => html`<${Hostile} tag="p" class="problem" data-error=${code}>${message}<//>`)}
    </div>
    <nav class="tabs" aria-label="Views">
      ${["Conversation", "Timeline"].map(name => html`<button type="button" class="quiet" aria-pressed=${tab === name} onClick=${() => setTab(name)}>${name}</button>`)}
    </nav>
    <div class="timeline"><${Lanes} ...${shared} /><${Replay} ...${shared} onReplay=${setReplayed} /></div>
    <div class="talk"><${Conversation} ...${shared} />${!replayed && html`<${Controls} ...${shared} />`}</div>
    ${step != null && html`<${Inspector} ...${shared} step=${step} onClose=${() => onSelect(null)} />`}
    <${Integrity} ...${shared} task=${current} />
  </main>`;
}

/** What a task is, how far it is, and what it has used of its limits; in a replay, at that moment. */
function Header({ taskId, task, summary = {}, limits }) {
  const { steps, startedAt, endedAt, reason, past } = task;
  const now = useClock(endedAt || !startedAt ? 0 : 1000);
  const known = steps.length || past ? { ...task, ...task.used, ...task.usage, steps: steps.length } : { ...task, ...task.used, ...summary }; // a long history is read last
  const title = summary.title || taskId;
  const parent = steps[0]?.metadata.parent;
  const facts = [
    ["Steps", known.steps, limits.max_steps, number],
    ["Tokens", known.tokens_in + known.tokens_out, limits.max_tokens, tokens],
    ["Cost", known.cost, limits.max_cost, money],
  ];
  useEffect(() => void (document.title = `${title} · Roboco`), [title]);
  return html`<header>
    <div class="row"><${Hostile} tag="h1">${title}<//><${Status} value=${known.status} /></div>
    ${reason && html`<${Hostile} tag="p" class="dim" tabindex=${reason.length > 200 ? 0 : null}>${reason}<//>`}
    <dl>
      <dt>Team</dt><dd><${Hostile}>${known.team}<//></dd>
      <dt>Time</dt><dd data-elapsed>${startedAt && duration((endedAt ?? past?.at ?? now) - startedAt)}</dd>
      ${facts.map(([name, used, limit, show]) => html`<dt>${name}</dt><dd data-fact=${name}>${show(used)}${limit != null && html` of ${show(limit)}
        <meter max=${limit} high=${limit * 0.8} optimum="0" value=${used} aria-label=${`${name} of the limit`} />`}</dd>`)}
      <dt>Id</dt><dd><code>${summary.task_id ?? taskId}</code></dd>
      ${parent?.child && parent.child === summary.task_id && html`<dt>Works for</dt><dd><${Hostile} tag="a" data-parent href=${`#/tasks/${encodeURIComponent(parent.task_id)}/steps/${Number(parent.at_seq)}`}>${parent.task_id}<//></dd>`}
    </dl>
  </header>`;
}
