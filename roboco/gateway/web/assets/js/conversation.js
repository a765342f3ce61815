// conversation: the steps of a task and its running turns, of which only those near the visible part exist.
//
//   step of an agent: failed attempts (void), text, tool cards, files, errors      running turn: the same, live
//   step of tools: one line for each result; the result itself is in the card of its call

import { Component, html, useEffect, useRef, useState } from "../vendor/preact.js";
import { File } from "./files.js";
import { clock, dateTime, duration, number, statusName, tokens } from "./format.js";
import { ToolCard } from "./tool_card.js";
import { isAgent, openTurns, textOf } from "./task_state.js";
import { coloured, Dialog, Hostile } from "./ui.js";
import { VirtualList } from "./virtual_list.js";

const KEYS = [["j, ↓", "next step"], ["k, ↑", "step before"], ["Home, End", "first step, newest step"], ["Enter", "explain the step"], ["Escape", "close the explanation"], ["?", "this help"]];

export function Conversation({ taskId, task, selected, onSelect, can, effects = {}, ready = true }) {
  const list = useRef();
  const [left, setLeft] = useState(null); // rows when the reader left the end, or null at the end
  const [cursor, setCursor] = useState(null);
  const [help, setHelp] = useState(false);
  const live = openTurns(task);
  const count = task.steps.length + live.length;
  const at = index => (index < task.steps.length ? { step: task.steps[index], turn: task.turns.get(task.steps[index]?.step_id) } : { turn: live[index - task.steps.length] });
  const estimate = index => estimateRow(at(index));
  const row = index => {
    const { step, turn } = at(index);
    const current = index === selected || index === cursor;
    const props = { taskId, task, index, count, step, turn, selected: index === selected, current, can, effects };
    return html`<${Row} key=${step?.step_id ?? turn?.stepId ?? `gap-${index}`} ...${props} stamp=${step ? stampOf(props) : NaN} />`;
  };
  const go = index => {
    const next = Math.max(0, Math.min(count - 1, index));
    setCursor(next);
    if (next === count - 1) list.current.showEnd();
    else if (!list.current.isVisible(next)) list.current.show(next);
    if (selected != null && task.steps[next]) onSelect(next);
    setTimeout(() => list.current?.view.querySelector(`[data-index="${next}"]`)?.focus({ preventScroll: true }), 50);
  };
  useKeys({ list, go, count, place: () => selected ?? cursor ?? list.current.anchor.index, selected, onSelect, ask: () => setHelp(true) });

  const known = selected != null && selected < task.steps.length;
  useEffect(() => {
    if (!known) return;
    setCursor(selected);
    if (!list.current.isVisible(selected)) list.current.show(selected, 40);
  }, [known, selected]);

  useEffect(() => setLeft(before => before && count), [ready]);

  const fresh = left == null ? 0 : Math.max(0, count - left);
  return html`<section class="conversation" aria-label="Conversation">
    <${VirtualList} ref=${list} count=${count} row=${row} estimate=${estimate} label="Steps" onFollow=${following => setLeft(following ? null : count)} />
    ${!count && html`<p class="empty dim">${ready ? "No steps yet." : "Reading …"}</p>`}
    ${left != null && html`<button type="button" class="to-end" data-action="end" onClick=${() => list.current.showEnd()}>↓ ${fresh ? `${number(fresh)} new step${fresh > 1 ? "s" : ""}` : "To the end"}</button>`}
    <${Announcer} task=${task} ready=${ready} />
    ${help && html`<${Dialog} title="Keys" onClose=${() => setHelp(false)}>
      <dl class="keys">${KEYS.map(([key, text]) => html`<dt><kbd>${key}</kbd></dt><dd>${text}</dd>`)}</dl>
      <form method="dialog"><button>Close</button></form>
    </${Dialog}>`}
  </section>`;
}

/** Moves by keys, unless the user writes, or a dialog is open. */
function useKeys(given) {
  const now = useRef();
  now.current = given;
  useEffect(() => {
    const pressed = event => {
      const { list, go, count, place, selected, onSelect, ask } = now.current;
      const { key, target } = event;
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !list.current) return;
      if (target.closest("input, textarea, select, dialog, [contenteditable]") || document.querySelector("dialog[open]")) return;
      const inside = list.current.view.contains(target);
      const free = inside || target === document.body || target.id === "main";
      const down = key === "j" || (key === "ArrowDown" && inside && isWhole(list.current, place(), 1));
      const up = key === "k" || (key === "ArrowUp" && inside && isWhole(list.current, place(), -1));
      if (down || up) go(place() + (down ? 1 : -1));
      else if (key === "Home" && free) go(0);
      else if (key === "End" && free) go(count - 1);
      else if (key === "?") ask();
      else if (key === "Escape" && selected != null) onSelect(null);
      else if (key === "Enter" && target.matches("[data-step]")) onSelect(Number(target.dataset.step));
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

/** Return true if no part of a row is hidden in a direction: else arrows scroll first. */
function isWhole({ view }, index, direction) {
  const row = view.querySelector(`[data-index="${index}"]`)?.getBoundingClientRect();
  const frame = view.getBoundingClientRect();
  return !row || (direction > 0 ? row.bottom <= frame.bottom + 1 : row.top >= frame.top - 1);
}

/** Tells screen readers of steps and statuses, once they rest for a moment; never of tokens. */
function Announcer({ task, ready }) {
  const [text, setText] = useState("");
  const key = ready ? `${task.status} ${task.steps.length}` : "";
  const before = useRef("");
  useEffect(() => {
    const first = !before.current;
    before.current = key;
    if (!key || first) return undefined;
    const step = task.steps.at(-1);
    const timer = setTimeout(() => setText(`${step ? `Step ${step.seq}, ${step.agent_name}: ${textOf(step).slice(0, 200)}. ` : ""}The task: ${statusName(task.status)}`), 600);
    return () => clearTimeout(timer);
  }, [key]);
  return html`<p class="visually-hidden" aria-live="polite" data-announced>${text}</p>`;
}

/** Return all that a committed row shows beside its step, so that it is rendered again when one of these changes. */
function stampOf({ task, step, turn, selected, current, effects, count }) {
  const calls = step.parts.map(({ tool_call: call }) => {
    if (!call) return "";
    const { result, unknown, subTask, resultSeq } = task.calls.get(call.id) ?? {};
    return [result ? 1 : task.status, resultSeq, unknown?.at, subTask?.id, task.waitingCalls.includes(call.id), task.changes.length].join();
  });
  return [step.digest, step.seq === count - 1, selected, current, turn?.voids.length, Object.keys(effects).length, calls].join("|");
}

class Row extends Component {
  shouldComponentUpdate(next) {
    return next.stamp !== this.props.stamp || next.task !== this.props.task; // NaN, of a running turn, is always another
  }

  render({ step, turn, index, count, selected, current, ...rest }) {
    const { task } = rest;
    const name = step?.agent_name ?? turn?.agent ?? "";
    const kind = isAgent(name) ? "by-agent" : `by-${name}`;
    return html`<article ...${coloured(task, name, `step ${kind} ${current ? "current" : ""}`)} data-index=${index} data-step=${step?.seq} data-live=${step ? null : turn?.stepId}
      tabindex="-1" aria-posinset=${index + 1} aria-setsize=${count} aria-current=${selected ? "step" : null} aria-label=${`Step ${index}, ${name || "missing"}`}>
      ${!step && !turn ? html`<p class="dim">This step is read from the history …</p>` : html`<${Head} name=${name} step=${step} turn=${turn} index=${index} ...${rest} />
      <${Body} name=${name} step=${step} turn=${turn} ...${rest} />`}
    </article>`;
  }
}

function Head({ taskId, task, name, step, turn, index }) {
  const meta = step?.metadata ?? {};
  const routing = meta.routing ?? turn?.routing ?? {};
  const { usage, timings, model } = meta;
  const attempt = step ? meta.attempt : turn.attempt;
  const from = routing.rule === "handoff" ? speakerBefore(task, index) : "";
  const at = step ? Date.parse(step.created_at) : turn.at;
  const facts = [model?.split("/").at(-1), usage && isAgent(name) && `${tokens(usage.tokens_in)} → ${tokens(usage.tokens_out)} tokens`, timings?.duration_ms != null && duration(timings.duration_ms)];
  return html`<header>
    <${Hostile} class="name">${NAMES[name] ?? name}</${Hostile}>
    ${attempt > 1 && html`<span class="tag">attempt ${attempt}</span>`}
    ${!step && html`<span class="tag live">${turn.text || turn.calls.length ? "writes" : "begins"}</span>`}
    ${meta.imported && html`<span class="tag">imported</span>`}
    ${meta.interrupted && html`<span class="tag warn">interrupted</span>`}
    ${meta.by && html`<span class="dim">by <${Hostile}>${meta.by}</${Hostile}></span>`}
    ${from && html`<span class="dim">handed over by <${Hostile} ...${coloured(task, from, "name")}>${from}</${Hostile}>: <${Hostile}>${routing.reason}</${Hostile}></span>`}
    <span class="grow"></span>
    <span class="meta dim">${facts.filter(Boolean).join(" · ")}</span>
    ${at > 0 && html`<time class="dim" datetime=${new Date(at).toISOString()} title=${dateTime(at)}>${clock(at)}</time>`}
    ${step && html`<a class="seq" href=${`#/tasks/${encodeURIComponent(taskId)}/steps/${step.seq}`} title="Explain this step">#${step.seq}</a>`}
  </header>`;
}

const NAMES = { tool_executor: "tools", orchestrator: "notice" };

/** Return the agent of the step before a position. */
function speakerBefore(task, index) {
  while (--index >= 0) if (task.steps[index] && isAgent(task.steps[index].agent_name)) return task.steps[index].agent_name;
  return "";
}

function Body({ taskId, task, name, step, turn, can, effects }) {
  const text = step ? textOf(step) : turn.text;
  const parts = step?.parts ?? [];
  const calls = step ? parts.filter(part => part.type === "tool_call").map(part => part.tool_call.id) : turn.calls;
  const card = id => html`<${ToolCard} key=${id} taskId=${taskId} task=${task} call=${task.calls.get(id)} effect=${step?.metadata.effects?.[task.calls.get(id).tool] ?? effects[task.calls.get(id).tool]} can=${can} />`;
  return html`
    ${turn?.voids.map(old => html`<${Void} key=${old.attempt} old=${old} open=${!step} />`)}
    ${(text || !step) && html`<${Hostile} tag="div" class="text ${step ? "" : "caret"}" data-text>${text}</${Hostile}>`}
    ${calls.map(card)}
    ${name === "tool_executor" && html`<ul class="results">${parts.map(part => part.tool_result && html`<${Result} result=${part.tool_result} task=${task} taskId=${taskId} />`)}</ul>`}
    ${parts.map(part => part.type === "artifact" && html`<${File} key=${part.artifact.uri} taskId=${taskId} file=${part.artifact} />`)}
    ${parts.map(part => part.type === "error" && html`<p class="problem"><${Hostile}>${part.message}</${Hostile}> <code>${part.code}</code></p>`)}`;
}

/** A result in the step of the tools: its call, whose card shows the content. */
function Result({ result, task, taskId }) {
  const call = task.calls.get(result.tool_call_id);
  const text = html`<${Hostile} class="mono">${call?.tool ?? result.tool_call_id}</${Hostile}>`;
  return html`<li class=${result.is_error ? "bad" : "ok"}>
    ${result.is_error ? "✕" : "✓"} ${call?.seq == null ? text : html`<a href=${`#/tasks/${encodeURIComponent(taskId)}/steps/${call.seq}`}>${text}</a>`}
    ${result.is_error ? " failed" : ""} <span class="dim">${duration(result.runtime_ms)}</span>
  </li>`;
}

/** Text of an attempt that failed: it is no part of the history. */
const Void = ({ old, open }) => html`<details class="void" open=${open}>
  <summary>Attempt ${old.attempt} is void: <${Hostile}>${old.reason}</${Hostile}> <span class="dim">${clock(old.at)}</span></summary>
  <${Hostile} tag="s" class="text" data-void>${old.text}</${Hostile}>
</details>`;

/** Return a guess of a row's height. */
function estimateRow({ step, turn }) {
  if (!step) return 80 + (turn?.text.length ?? 0) / 5;
  let height = 40;
  for (const part of step.parts) {
    if (part.type === "text") height += 21 * Math.max(1, part.text.length / 110 + part.text.split("\n", 400).length - 1);
    else height += part.type === "tool_call" ? 100 : part.type === "tool_result" ? 20 : 48;
  }
  return height;
}
