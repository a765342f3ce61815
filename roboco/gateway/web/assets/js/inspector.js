// inspector: the explanation of one step: why, prompt, usage, stored JSON, digests, frames.

import { html, useState } from "../vendor/preact.js";
import { request, taskPath } from "./api.js";
import { dateTime, duration, json, money, number } from "./format.js";
import { Hostile, Problem, useAction, useLoad } from "./ui.js";
import { indent, readLine, verifyHistory } from "./verify.js";

const SHOWN_CHARS = 100000;
const SHOWN_FRAMES = 200;

export function Inspector({ taskId, task, step: seq, frames, onClose }) {
  const [tab, setTab] = useState("Why");
  const step = task.steps[seq];
  const names = Object.keys(TABS);
  const move = event => {
    const to = { ArrowRight: names.indexOf(tab) + 1, ArrowLeft: names.indexOf(tab) - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    setTab(names.at(to % names.length));
    [...event.currentTarget.children].at(to % names.length).focus();
  };
  return html`<aside class="inspector" data-inspector=${seq} aria-label=${`Step ${seq}`} onKeyDown=${event => event.key === "Escape" && onClose()}>
    <header class="row"><h2>Step ${seq}</h2><${Hostile}>${step?.agent_name}<//><span class="dim">${step && dateTime(Date.parse(step.created_at))}</span>
      <span class="grow"></span><button type="button" class="quiet" aria-label="Close the inspector" onClick=${onClose}>✕</button></header>
    <div role="tablist" aria-label="Explanations" onKeyDown=${move}>${names.map(name => html`<button type="button" role="tab" id=${`tab-${name}`} aria-controls="tab-panel" aria-selected=${name === tab} tabindex=${name === tab ? 0 : -1} onClick=${() => setTab(name)}>${name}</button>`)}</div>
    <div role="tabpanel" id="tab-panel" aria-labelledby=${`tab-${tab}`} tabindex="0">
      ${step ? html`<${TABS[tab]} key=${tab + seq} taskId=${taskId} task=${task} seq=${seq} step=${step} frames=${frames} />` : html`<p class="dim">The history has no step ${seq} yet.</p>`}
    </div>
  </aside>`;
}

/** What is read for a step, or its problem. */
function Read({ from, children }) {
  const { data, problem, reload } = useLoad(from, []);
  return data ? children(data) : problem ? html`<${Problem} problem=${problem} retry=${reload} />` : html`<p class="dim">reading …</p>`;
}

const Facts = ({ of }) => html`<dl class="facts">${of.map(([name, value]) => value != null && value !== "" && html`<dt><${Hostile}>${name}<//></dt><dd><${Hostile}>${value}<//></dd>`)}</dl>`;
const Lines = ({ title, lines }) => lines.length > 0 && html`<h3>${title}</h3><ul>${lines.map(line => html`<li><${Hostile}>${line}<//></li>`)}</ul>`;

const Why = ({ taskId, seq }) => html`<${Read} from=${() => request(`${taskPath(taskId, "why")}?step=${seq}`)}>${({ steps: [one], end, missing_worker: missing }) => html`
  <${Hostile} tag="p" class="reason">${one.why}<//>
  <${Facts} of=${[["Router", one.router], ["Rule", one.rule], ["Reason", one.reason]]} />
  ${one.candidates.length > 0 && html`<h3>Candidates</h3><ul>${one.candidates.map(({ name, taken, why }) => html`<li class=${taken ? "taken" : "dim"}><${Hostile} tag="b">${name}<//> <${Hostile}>${why}<//></li>`)}</ul>`}
  <${Lines} title="Before" lines=${one.before} /><${Lines} title="In this step" lines=${one.events} />
  <${Lines} title="The task now" lines=${[end, missing].filter(Boolean)} />`}<//>`;

/** Return sorted positions as ranges: [0, 1, 2, 5] as [[0, 2], [5, 5]]. */
export function rangesOf(positions) {
  const ranges = [];
  for (const seq of positions) {
    if (ranges.at(-1)?.[1] === seq - 1) ranges.at(-1)[1] = seq;
    else ranges.push([seq, seq]);
  }
  return ranges;
}

function Context({ taskId, seq, step }) {
  if (!step.metadata.context?.tokens) return html`<p class="dim">No model has written this step, so it had no prompt.</p>`;
  const link = to => html`<a href=${`#/tasks/${encodeURIComponent(taskId)}/steps/${to}`}>${to}</a>`;
  const steps = ranges => (ranges.length ? ranges.map(([first, last], index) => html`${index > 0 && ", "}${link(first)}${last > first && html`–${link(last)}`}`) : "none");
  return html`<${Read} from=${() => request(`${taskPath(taskId, "context")}?step=${seq}`)}>${({ context, changes }) => html`
    <h3>Steps in the prompt</h3><p>${steps(context.included ?? [])}</p>
    <h3>Left out</h3>${context.left_out?.length ? html`<ul>${context.left_out.map(one => html`<li>${steps([one.steps])}: <${Hostile}>${one.why}<//></li>`)}</ul>` : html`<p>nothing</p>`}
    <h3>Since the turn of this agent before</h3>
    <p>${changes ? html`step ${link(changes.since)}: added ${steps(rangesOf(changes.added))}; removed ${steps(rangesOf(changes.removed))}; ${changes.tokens > 0 && "+"}${number(changes.tokens)} tokens${changes.summary && "; another summary"}` : "it is its first turn"}</p>
    <h3>Tokens</h3><${Facts} of=${[...Object.entries(context.tokens).map(([name, count]) => [name, number(count)]), ["counted by", context.tokenizer], ["strategy", context.strategy], ["summary of", context.summary && json(context.summary, 2000)], ["no summary", context.no_summary && json(context.no_summary, 2000)]]} />`}<//>`;
}

function Usage({ taskId, step }) {
  const { usage, timings = {}, unfinished_usage: unfinished, model, finish_reason: finish, attempt, chunks, tools = {} } = step.metadata;
  const own = { steps: 1, calls: Object.values(tools).reduce((sum, { calls = 0 }) => sum + calls, 0), seconds: (timings.duration_ms ?? 0) / 1000, ...usage };
  const row = ([name, used]) => html`<tr><th scope="row"><${Hostile}>${name}<//></th>${["steps", "tokens_in", "tokens_out", "calls"].map(key => html`<td>${number(used[key])}</td>`)}<td>${duration(used.seconds * 1000)}</td><td>${money(used.cost)}</td></tr>`;
  return html`
    <${Facts} of=${[["Model", model], ["Finished by", finish], ["Attempt", attempt], ["Chunks", chunks], ["First token", duration(timings.first_token_ms)], ["Unfinished before", unfinished && json(unfinished, 400)]]} />
    <${Read} from=${() => request(taskPath(taskId, "usage"))}>${({ total, agents, tools, limits }) => html`
      <table><thead><tr>${["", "steps", "in", "out", "calls", "time", "cost"].map(name => html`<th scope="col">${name}</th>`)}</tr></thead>
        <tbody>${[["this step", own], ["task", total], ...Object.entries(agents), ...Object.entries(tools)].map(row)}</tbody></table>
      <h3>Limits</h3><${Facts} of=${Object.entries(limits).map(([name, most]) => [name.replaceAll("_", " "), most && typeof most !== "object" ? String(most) : ""])} />`}<//>`;
}

const Raw = ({ taskId, seq }) => html`<${Read} from=${() => readLine(taskId, seq)}>${line => html`<${Line} line=${line} />`}<//>`;

function Line({ line }) {
  const [copy, { result, problem }] = useAction(() => navigator.clipboard.writeText(line).then(() => "copied"));
  return html`<p class="row"><button type="button" data-action="copy" onClick=${copy}>Copy the stored line</button><span role="status">${problem ? "the browser refuses the clipboard" : result}</span></p>
    <${Hostile} tag="pre" data-raw>${json(indent(line), SHOWN_CHARS)}<//>`;
}

function Digest({ taskId, seq, step, task }) {
  const [checked, setChecked] = useState(0);
  const { data, problem, reload } = useLoad(() => verifyHistory(taskId, setChecked), []);
  const shown = data && Object.keys(task.steps).find(at => data.digests[at] && data.digests[at] !== task.steps[at].digest);
  const text = data?.wrong ? `Step ${data.wrong.seq} is wrong: ${data.wrong.why}. The steps before it are intact.` : shown ? `The stream has shown another step ${shown} than the history holds.` : `${number(checked)} steps, each intact and following the one before.`;
  return html`<${Problem} problem=${problem} retry=${reload} />
    <${Hostile} tag="p" role="status" class=${data && (data.wrong || shown ? "problem" : "intact")} data-chain=${data ? (data.wrong || shown ? "broken" : "intact") : "reading"}>${data ? text : `${number(checked)} steps checked …`}<//>
    <${Facts} of=${[["Digest", step.digest], ["Computed here", data?.digests[seq]], ["Step before", step.prev_digest || "none"]]} />`;
}

function Events({ seq, frames = [] }) {
  const isStep = ({ type, data }) => type === "step_final" && data.step.seq === seq;
  const at = frames.findLastIndex(isStep);
  if (at < 0) return html`<p class="dim">The stream of this page has no frame of this step.</p>`;
  const first = Math.max(frames.slice(0, at).findLastIndex(({ type }) => type === "step_final") + 1, at - SHOWN_FRAMES);
  return html`<p class="dim">From the step before to the frames after this one; at most ${SHOWN_FRAMES}.</p>
    <ol class="frames">${frames.slice(first, at + 4).map(({ type, place, data }) => html`<li key=${place}><details><summary><code class="hostile">${type}</code> <${Hostile} class="dim">${data.text?.slice(0, 60) ?? place}<//></summary><${Hostile} tag="pre">${json(data, 8000)}<//></details></li>`)}</ol>`;
}

const TABS = { Why, Context, Usage, Raw, Digest, Events };
