// conversation: the steps of a task and its running turns. All their content is hostile, and shown as text.
//
//   step of an agent: failed attempts (void), text, cards of tool calls and files, errors      running turn: the same, live
//   step of tools: a line for each result, whose content is in the card of its call

import { Component, html, useEffect, useRef, useState } from "../vendor/preact.js";
import { send, taskPath } from "./api.js";
import { CallActions } from "./controls.js";
import { bytes, clock, dateTime, duration, json, statusName, tokens } from "./format.js";
import { isAgent, openTurns, textOf } from "./task_state.js";
import { coloured, Hostile, Problem, useAction, useClock } from "./ui.js";
import { VirtualList } from "./virtual_list.js";

const MOVES = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
const NAMES = { tool_executor: "tools", orchestrator: "notice" };
const IMAGE = /^image\/(png|jpeg|gif|webp)$/;
const TEXT = /^text|json|xml|yaml|toml|script|sql/;
const MOST = 1 << 16; // bytes of a text

export function Conversation({ selected, onSelect, ready, ...shared }) {
  const { steps, turns, status } = shared.task;
  const list = useRef();
  const [cursor, setCursor] = useState();
  const live = openTurns(shared.task);
  const count = steps.length + live.length;
  const place = selected ?? cursor;
  const row = index => {
    const step = steps[index];
    const turn = step ? turns.get(step.step_id) : live[index - steps.length];
    return html`<${Row} key=${step?.step_id ?? turn?.stepId ?? index} ...${shared} index=${index} step=${step} turn=${turn} selected=${index === selected} current=${index === place} />`;
  };
  const press = event => {
    const { key, target } = event;
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.closest("input, textarea, select") || document.querySelector("dialog[open]")) return;
    const { view, index, rowAt } = list.current;
    const inside = view.contains(target);
    const from = place ?? index;
    if (MOVES[key] && (key.length === 1 || inside || !target.closest("main *"))) {
      const [frame, box] = [view, rowAt(from) ?? view].map(element => element.getBoundingClientRect());
      if (key.startsWith("Arrow") && (MOVES[key] > 0 ? box.bottom > frame.bottom + 1 : box.top < frame.top - 1)) return; // scrolls a long step first
      const next = Math.max(0, Math.min(count - 1, from + MOVES[key]));
      setCursor(next);
      list.current.show(next, true);
      if (selected != null && steps[next]) onSelect(next);
    } else if (key === "Escape" && selected != null) onSelect(null);
    else if (key === "Enter" && target.dataset.step) onSelect(Number(target.dataset.step));
    else return;
    event.preventDefault();
  };
  const pressed = useRef();
  pressed.current = press;
  useEffect(() => {
    const listen = event => pressed.current(event);
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
  const known = selected != null && selected < steps.length;
  useEffect(() => {
    if (known) list.current.show(selected);
  }, [known, selected]);
  return html`<section class="conversation" aria-label="Conversation" aria-keyshortcuts="j k Home End Enter Escape">
    <${VirtualList} ref=${list} count=${count} row=${row} />
    ${!count && html`<p class="empty dim">${ready ? "No steps yet." : "Reading …"}</p>`}
    <p class="visually-hidden" aria-live="polite">${ready && `Step ${steps.length - 1} of ${steps.at(-1)?.agent_name}. The task: ${statusName(status)}`}</p>
  </section>`;
}

class Row extends Component {
  /** A step whose calls have results does not change while others are written. */
  shouldComponentUpdate(next) {
    return !this.done || ["task", "step", "selected", "current", "effects"].some(name => next[name] !== this.props[name]);
  }

  render({ taskId, task, index, step, turn, selected, current, effects, can }) {
    const name = step?.agent_name ?? turn?.agent ?? "missing";
    const { parts = [], metadata = {}, created_at } = step ?? {};
    const { model, usage, timings, by, routing = turn?.routing, attempt = turn?.attempt } = metadata;
    const text = step ? textOf(step) : turn?.text;
    const calls = (step ? parts.flatMap(part => part.tool_call?.id ?? []) : (turn?.calls ?? [])).map(id => task.calls.get(id));
    const at = step ? Date.parse(created_at) : turn?.at;
    const facts = [model?.split("/").at(-1), isAgent(name) && usage && `${tokens(usage.tokens_in)} → ${tokens(usage.tokens_out)} tokens`, duration(timings?.duration_ms)];
    const marks = [!step && (turn ? "writes" : "is read …"), attempt > 1 && `attempt ${attempt}`, metadata.imported && "imported", metadata.interrupted && "interrupted"];
    const link = (seq, content) => html`<a href=${`#/tasks/${encodeURIComponent(taskId)}/steps/${seq}`}>${content}</a>`;
    this.done = step && calls.every(call => call.resultSeq != null);
    return html`<article ...${coloured(task, name, `step by-${name} ${current ? "current" : ""}`)} data-index=${index} data-step=${step?.seq} data-live=${step ? null : turn?.stepId}
      tabindex="-1" aria-current=${selected ? "step" : null} aria-label=${`Step ${index}, ${name}`}>
      <header>
        <${Hostile} class="name">${NAMES[name] ?? name}<//>
        ${marks.map(mark => mark && html`<span class="tag">${mark}</span>`)}
        ${by && html`<span class="dim">by <${Hostile}>${by}<//></span>`}
        <span class="dim grow">${routing?.rule === "handoff" && html`handed over: <${Hostile}>${routing.reason}<//>`}</span>
        <small class="dim">${facts.filter(Boolean).join(" · ")}</small>
        <time class="dim" title=${dateTime(at)}>${clock(at)}</time>
        ${step && link(step.seq, `#${step.seq}`)}
      </header>
      ${turn?.voids.map(old => html`<details class="void" open=${!step}>
        <summary>Attempt ${old.attempt} is void: <${Hostile}>${old.reason}<//> ${clock(old.at)}</summary>
        <${Hostile} tag="s" class="text" data-void>${old.text}<//>
      </details>`)}
      ${(text || (turn && !step)) && html`<${Hostile} tag="div" class="text" data-text>${text}<//>`}
      ${calls.map(call => html`<${ToolCard} key=${call.id} taskId=${taskId} task=${task} call=${call} effect=${(metadata.effects ?? effects)?.[call.tool]} can=${can} />`)}
      ${parts.map(({ type, tool_result: result, artifact, message, code }) => {
        if (artifact) return html`<${File} key=${artifact.uri} taskId=${taskId} ...${artifact} />`;
        if (type === "error") return html`<p class="problem"><${Hostile}>${message}<//> <code>${code}</code></p>`;
        if (!result) return null;
        const { seq, tool } = task.calls.get(result.tool_call_id);
        return html`<span class="result ${result.is_error ? "bad" : "ok"}">${link(seq, html`<${Hostile} class="mono">${tool}<//>`)} ${result.is_error ? "failed" : "done"} ${duration(result.runtime_ms)}</span>`;
      })}
    </article>`;
  }
}

/** A part of a step with a name, a state and values. */
const Card = ({ name, head, children, ...rest }) => html`<section class="card" ...${rest}><header><${Hostile} class="mono name">${name}<//> ${head}</header>${children}</section>`;

/** JSON or text. A long one scrolls. */
function Value({ name, value }) {
  const line = typeof value === "string" ? value : JSON.stringify(value);
  const long = line?.length > 200;
  return line && line !== "{}" && html`<div class="value"><span class="dim">${name}</span>
    <${Hostile} tag="pre" data-value=${name.toLowerCase()} tabindex=${long ? 0 : null}>${long ? json(value, MOST) : line}<//></div>`;
}

function ToolCard({ taskId, task, call, effect, can }) {
  const { tool, args, result, unknown, subTask } = call;
  const [kind, state] = stateOf(task, call);
  const now = useClock(kind === "run" ? 500 : 0);
  const begun = subTask?.at ?? call.at ?? task.turns.get(call.stepId)?.at;
  const ms = result ? result.runtime_ms || call.endedAt - call.at : kind === "run" && begun ? (task.past?.at ?? now) - begun : NaN;
  const child = subTask?.id ?? (tool === "delegate" && result?.result?.task_id);
  return html`<${Card} name=${tool} data-call=${call.id} data-state=${kind} head=${html`
      ${effect && html`<span class="tag" data-effect>${effect}</span>`}
      <b class=${kind}>${state}</b>
      <span class="dim grow" data-duration>${duration(ms)}</span>
      ${child && html`<a data-sub-task href=${`#/tasks/${encodeURIComponent(child)}`}>Sub-task of <${Hostile}>${subTask?.team}<//></a>`}`}>
    <${Value} name="Arguments" value=${args} />
    <${Value} name="Unknown" value=${unknown?.reason} />
    ${result && html`<${Value} name=${result.is_error ? "Error" : "Result"} value=${result.error ?? result.result} />`}
    ${!child && html`<${CallActions} taskId=${taskId} call=${call} task=${task} can=${can} ...${task.past && { wants: "" }} />`}
  <//>`;
}

/** Return the kind of a call's state, and its text. */
function stateOf(task, { id, result, unknown, seq }) {
  if (result) return result.is_error ? ["bad", "failed"] : ["ok", "done"];
  if (unknown) return ["warn", "outcome unknown"];
  if (task.waitingCalls.includes(id)) return ["wait", statusName(task.status)];
  if (task.endedAt) return ["dim", "no result"];
  return task.status === "running" ? ["run", seq == null ? "called" : "runs"] : ["wait", "waits"];
}

/** A file of the task. The gateway sends it as an attachment that no browser runs. */
function File({ taskId, uri, mime_type: type, size, version }) {
  const name = uri.split("artifacts/").pop();
  const path = taskPath(taskId, "files", name);
  const [read, { result, problem }] = useAction(async () => (await send(path, { headers: size > MOST ? { Range: `bytes=0-${MOST - 1}` } : {} })).text());
  return html`<${Card} name=${name} data-file=${name} head=${html`
      <span class="dim grow"><${Hostile}>${type}<//> · ${bytes(size)}${version > 1 && ` · version ${version}`}</span>
      ${TEXT.test(type) && html`<button type="button" data-action="preview" onClick=${read}>Preview</button>`}
      <a data-action="download" href=${path} download=${name}>Download</a>`}>
    <${Problem} problem=${problem} />
    ${IMAGE.test(type) && size < MOST << 7 && html`<img src=${path} alt=${`The image ${name}`} />`}
    <${Value} name=${size > MOST ? `First ${bytes(MOST)}` : "Text"} value=${result} />
  <//>`;
}
