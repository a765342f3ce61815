// conversation: the steps of a task and its running turns. All content is hostile: it is shown as text.
//
//   step or running turn: void attempts, text, cards of calls and files, errors      step of tools: a line for each result

import { Component, html, useEffect, useLayoutEffect, useRef } from "../vendor/preact.js";
import { requestText, taskPath } from "./api.js";
import { CallActions } from "./controls.js";
import { bytes, clock, dateTime, duration, escaped, json, money, plural, statusName, tokens } from "./format.js";
import { isAgent, openTurns, textOf } from "./task_state.js";
import { Markdown } from "./markdown.js";
import { addressOf, coloured, Problem, useAction, useClock } from "./ui.js";
import { VirtualList } from "./virtual_list.js";

const NAMES = { tool_executor: "tools", orchestrator: "notice" };
const IMAGE = /^image\/(png|jpeg|gif|webp)$/;
const TEXTUAL = /^text|json|xml|yaml|toml|script|sql/;
const MOST_BYTES = 1 << 20; // bytes of a text that is read

export function Conversation({ selected, onSelect, ready, ...shared }) {
  const { steps, turns, status } = shared.task;
  const list = useRef();
  const live = openTurns(shared.task);
  const count = steps.length + live.length;
  const row = index => {
    const step = steps[index];
    const turn = step ? turns.get(step.step_id) : live[index - steps.length];
    return html`<${StepRow} key=${step?.step_id ?? turn?.stepId ?? index} ...${shared} index=${index} step=${step} turn=${turn} selected=${index === selected} />`;
  };
  useLayoutEffect(() => {
    const press = event => {
      const { key, target } = event;
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select, dialog")) return;
      const index = Number(target.dataset.index ?? selected ?? list.current.index);
      if (/^[jk]$/.test(key) && index < count) {
        const next = Math.max(0, Math.min(count - 1, key === "j" ? index + 1 : index - 1));
        list.current.show(next);
        setTimeout(() => list.current.rowAt(next)?.focus({ preventScroll: true }));
        if (selected != null && steps[next]) onSelect(next);
      } else if (key === "Escape" && selected != null) onSelect(null);
      else if (key === "Enter" && target.dataset.step) onSelect(index);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  });
  useEffect(() => {
    if (steps[selected]) list.current.show(selected, ready);
  }, [steps[selected]]);
  return html`<section class="conversation" aria-label="Conversation" aria-keyshortcuts="j k Enter Escape">
    <${VirtualList} ref=${list} count=${count} row=${row} />
    ${!count && html`<p class="middle">${ready ? "No steps yet." : "Reading …"}<//>`}
    <p class="visually-hidden" aria-live="polite">${ready && `${steps.length} steps, ${statusName(status)}`}<//>
  <//>`;
}

class StepRow extends Component {
  /** A step whose calls have results changes no more. */
  shouldComponentUpdate(next) {
    return !this.done || ["task", "step", "selected", "effects"].some(name => next[name] !== this.props[name]);
  }

  render({ index, step, turn, selected, effects, ...shared }) {
    const { taskId, task } = shared;
    const { agent_name: name = turn?.agent ?? "", parts = [], metadata = {}, created_at } = step ?? {};
    const { timings, usage, by, attempt = turn?.attempt, reasoning = turn?.reasoning, output, map, guards, guarded, refused } = metadata;
    const text = step ? textOf(step) : turn?.text;
    const calls = (step ? parts.flatMap(part => part.tool_call?.id ?? []) : (turn?.calls ?? [])).map(id => task.calls.get(id));
    const at = step ? Date.parse(created_at) : turn?.at;
    const marks = [!step && (turn ? "writes" : "…"), attempt > 1 && `attempt ${attempt}`, ...["imported", "interrupted"].filter(mark => metadata[mark]),
      guarded && `passed ${guarded.join(", ")}`, refused && "in place of what guards refused"];
    this.done = step && calls.every(call => call.resultSeq != null);
    return html`<article ...${coloured(task, name, `step by-${name}`)} data-index=${index} data-step=${step?.seq} data-live=${step ? null : turn?.stepId}
      tabindex="-1" aria-current=${selected ? "step" : null} aria-label=${`Step ${index}, ${name}`}>
      <header class="row">
        <bdi class="name">${guards && !isAgent(name) ? "guards" : (NAMES[name] ?? name)}<//>
        ${marks.map(mark => mark && html`<span class="tag">${mark}<//>`)}
        <span class="dim grow">${by && html`by <bdi>${by}<//>`}<//>
        <span class="hint" title=${dateTime(at)}>${[timings && duration(timings.duration_ms), usage && `${tokens(usage.tokens_in + usage.tokens_out)} tokens`, usage?.cost > 0 && `cost ${money(usage.cost)}`, clock(at)].filter(Boolean).join(" · ")}<//>
        ${step && html`<a href=${addressOf(taskId, index)}>#${index}<//>`}
      <//>
      ${turn?.voids.map(({ attempt, reason, text }) => html`<details class="void" open=${!step}>
        <summary>Attempt ${attempt} is void: <bdi>${reason}<//><//>
        <s dir="auto" class="text">${text}<//>
      <//>`)}
      ${reasoning && html`<details class="dim" open=${!step && !text}><summary>Reasoning<//><${Lines} name="Of the model" value=${reasoning} /><//>`}
      ${(text || (turn && !step)) && html`<div class=${output && /^\s*[[{]/.test(text) ? "is-output" : null}><${Markdown} text=${text} /><//>`}
      <${Lines} name="Output" value=${output} />
      ${map && calls.length > 0 ? html`<${MapItems} task=${task} over=${map} calls=${calls} />` : calls.map(call => html`<${ToolCard} key=${call.id} ...${shared} call=${call} effect=${(metadata.effects ?? effects)?.[call.tool]} />`)}
      ${parts.map(({ type, tool_result: result, artifact, message, code }) => {
        if (artifact) return html`<${File} key=${artifact.uri} taskId=${taskId} ...${artifact} />`;
        if (type === "error") return html`<p class="problem"><bdi>${message}<//> <code>${code}<//><//>`;
        if (!result) return null;
        const call = task.calls.get(result.tool_call_id);
        const { passed, failed, reason } = guards?.verdicts?.[call.args.team ?? call.tool] ?? {};
        return html`<div><a href=${addressOf(taskId, call.seq)}><bdi class="mono">${guards ? call.args.team ?? call.tool : call.tool}<//><//> <${State} of=${passed == null ? stateOf(task, { result }) : passed ? ["completed", "passed"] : ["failed", failed ? "failed, so refused" : "refused"]} /> <bdi>${!passed && reason}<//> ${duration(result.runtime_ms)}<//>`;
      })}
    <//>`;
  }
}

/** Return the state of a call: the name of its colour, and its text. */
function stateOf(task, { id, result, unknown }) {
  if (result) return result.is_error ? ["failed", "failed"] : ["completed", "done"];
  if (unknown) return ["paused", "outcome unknown"];
  if (task.waitingCalls.includes(id)) return ["", statusName(task.status)];
  if (task.endedAt) return ["queued", "no result"];
  return task.status === "running" ? ["running", "runs"] : ["", "waits"];
}

const State = ({ of: [colour, text] }) => html`<span class="status ${colour}">${text}<//>`;

/** JSON or text. A long one scrolls. */
export function Lines({ name, value }) {
  const line = JSON.stringify(value) ?? "{}";
  const long = line.length > 200;
  return line !== "{}" && html`<div class="value"><span class="dim">${name}<//> <pre dir="auto" tabindex=${long ? 0 : null}>${long || typeof value === "string" ? json(value) : escaped(line)}<//><//>`;
}

/** The items of a map: what each is, and what has become of its sub-task. */
function MapItems({ task, over, calls }) {
  const states = calls.map(call => stateOf(task, call));
  const counts = Object.entries(Object.groupBy(states, ([, text]) => text));
  return html`<section class="card" data-map>
    <p><code>${over}<//> <span class="dim">${plural(calls.length, "item")}: ${counts.map(([text, { length }]) => `${length} ${text}`).join(", ")}<//><//>
    <ol>${calls.map(({ id, args, result, subTask }, i) => html`<li key=${id} data-call=${id}>
      <bdi>${json(args.item ?? args.prompt, 200)}<//> <${State} of=${states[i]} />
      ${subTask && html` <a data-sub-task href=${addressOf(subTask.id)}>sub-task<//>`} <bdi class="bad">${result?.error}<//><//>`)}<//>
  <//>`;
}

function ToolCard({ taskId, task, call, effect, can }) {
  const { tool, args, result, subTask, at } = call;
  const state = stateOf(task, call);
  const runs = state[0] === "running";
  const now = useClock(runs ? 500 : 0);
  const child = subTask?.id ?? (tool === "delegate" && result?.result?.task_id);
  return html`<section class="card" data-call=${call.id}>
    <header class="row">
      <bdi class="mono name">${tool}<//>
      ${effect && html`<span class="tag">${effect}<//>`}
      <${State} of=${state} />
      <span class="dim grow">${duration(result ? result.runtime_ms || call.endedAt - at : runs ? (task.past?.at ?? now) - at : NaN)}<//>
      ${child && html`<a data-sub-task href=${addressOf(child)}>Sub-task of <bdi>${subTask?.team}<//><//>`}
    <//>
    <${Lines} name="Arguments" value=${args} />
    ${result && html`<${Lines} name=${result.is_error ? "Error" : "Result"} value=${result.error ?? result.result} />`}
    ${!child && html`<${CallActions} taskId=${taskId} call=${call} task=${task} can=${can} ...${task.past && { wants: "" }} />`}
  <//>`;
}

/** A file. The gateway sends it as an attachment, which no browser runs. */
function File({ taskId, uri, mime_type: type, size, version }) {
  const name = uri.split("artifacts/").pop();
  const path = taskPath(taskId, "files", name);
  const [read, { result, problem }] = useAction(() => requestText(path));
  return html`<section class="card" data-file=${name}>
    <header class="row">
      <bdi class="mono name">${name}<//>
      <span class="dim grow"><bdi>${type}<//> ${bytes(size)}${version > 1 && `, version ${version}`}<//>
      ${TEXTUAL.test(type) && size <= MOST_BYTES && html`<button data-action="preview" onClick=${read}>Preview<//>`}
      <a data-action="download" href=${path} download=${name}>Download<//>
    <//>
    <${Problem} problem=${problem} />
    ${IMAGE.test(type) && size <= MOST_BYTES * 8 && html`<img src=${path} alt=${`The image ${name}`} />`}
    <${Lines} name="Text" value=${result} />
  <//>`;
}
