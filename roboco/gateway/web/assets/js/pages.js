// pages: the list of tasks.
//
//   pages of GET v1/tasks ─► entries ◄─ task_listed, if it is newer      list_gap ─► read the pages again

import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import { actionAddress, request, taskPath } from "./api.js";
import { Controls, PendingCalls, TimeLeft } from "./controls.js";
import { money, plural, statusName, tokens } from "./format.js";
import { follow } from "./streams.js";
import { ENDED, WAITING, newTask, plain } from "./task_state.js";
import { addressOf, Age, Banner, Problem, Status, useClock, useFrame, useLoad } from "./ui.js";

const MOST_TASKS = 1000; // tasks that the page keeps
const STATUSES = ["queued", "running", ...WAITING, ...ENDED];
const GROUPS = { waiting: [...WAITING], open: STATUSES.filter(status => !ENDED.has(status)), ended: [...ENDED] };
const HOURS = { "1h": 1, "1d": 24, "7d": 168, "30d": 720 };

const VIEWS = { "All": "", "Waiting": "status=waiting", "Running": "status=running", "Failed today": "status=failed&since=1d" };
const ON_ALL = ["stop", "pause", "resume", "retry", "control", "erase"]; // "control": any of them

export function ListPage({ me, can, query }) {
  const filters = Object.fromEntries(query);
  const list = useTasks(filters);
  const shown = [...list.entries.values()].filter(entry => meets(entry, filters)).sort((a, b) => (a.updated_at < b.updated_at ? 1 : -1));
  const waiting = shown.filter(waitsForUser).reverse();
  const others = shown.filter(entry => !waitsForUser(entry));
  return html`<main tabindex="0" data-page="list">
    <h1 class="visually-hidden">Tasks<//>
    <${Filters} filters=${filters} me=${me} />
    ${can("operate") && query.size > 0 && html`<p class="row">All of these: ${ON_ALL.map(control => html`
      <a href=${actionAddress(control === "erase" ? "erase_tasks" : "control_tasks", { control, ...filters, ...(filters.since && { since: new Date(earliest(filters)).toISOString() }) })}>${control} …<//>`)}<//>`}
    ${list.state === "lost" && html`<${Banner} kind="lost">The gateway does not answer. This is the last state.<//>`}
    ${!list.complete && html`<${Banner} kind="rebuild">The task index is being rebuilt: tasks may be missing.<//>`}
    <${Problem} problem=${list.problem} retry=${() => list.load()} />
    ${waiting.length > 0 && html`<section class="waits" aria-label="Tasks that wait for you">
      <h2>${plural(waiting.length, "task")} for you, the first for <${Age} at=${Date.parse(waiting[0].updated_at)} /><//>
      ${waiting.map(entry => html`<${TaskRow} key=${entry.task_id} entry=${entry} can=${can} />`)}
    <//>`}
    <section aria-label="Tasks">${others.map((entry, i) => html`<${TaskRow} key=${entry.task_id} entry=${entry} live=${i < 60} />`)}<//>
    ${list.cursor && html`<button disabled=${list.loading} onClick=${() => list.load(list.cursor)}>Older tasks<//>`}
    ${!shown.length && !list.loading && !list.problem && html`<div class="empty dim">${query.size > 0
      ? html`No task meets these conditions. <a href="#/">Show all tasks<//>`
      : html`<p>No tasks yet. A task appears here as soon as it is submitted:<//><pre>roboco run team.yaml "Write about the sea."<//>`}<//>`}
  <//>`;
}

const waitsForUser = ({ status, waits }) => waits || WAITING.has(status); // also one that runs beside an approval
const earliest = ({ since }) => Date.now() - HOURS[since] * 36e5;
const meets = (entry, { status, team, text = "", tenant, since }) =>
  (!status || (GROUPS[status] ?? [status]).includes(entry.status)) && (!team || entry.team === team) &&
  (!tenant || entry.task_id.startsWith(`${tenant}:`)) && entry.title.toLowerCase().includes(text.toLowerCase()) &&
  (!since || Date.parse(entry.updated_at) >= earliest({ since }));

function useTasks(filters) {
  const [, changed] = useFrame();
  const key = JSON.stringify(filters);
  const list = useMemo(() => ({ entries: new Map(), complete: true, loading: true }), [key]);
  const put = entry => {
    const before = list.entries.get(entry.task_id);
    if (before && (before.epoch - entry.epoch || (before.updated_at > entry.updated_at ? 1 : -1)) > 0) return;
    list.entries.delete(entry.task_id); // the latest change is the last one
    list.entries.set(entry.task_id, entry);
    if (list.entries.size > MOST_TASKS) list.entries.delete(list.entries.keys().next().value);
  };
  list.load = async (cursor = "") => {
    list.loading = true;
    const read = more => request(`v1/tasks?${new URLSearchParams({ ...filters, ...more })}`);
    const reads = [read({ cursor }), ...(cursor || filters.status ? [] : [read({ status: "waiting", limit: 200 })])];
    await Promise.all(reads).then(pages => {
      pages.forEach(({ tasks }) => tasks.forEach(put));
      Object.assign(list, { cursor: pages[0].cursor, complete: pages[0].complete, problem: null });
    }, problem => Object.assign(list, { problem }));
    list.loading = false;
    changed();
  };
  useEffect(() => {
    let timer;
    const stop = follow("list", "", ({ frames, state, problem }) => {
      Object.assign(list, { state, ...(problem && { problem }) });
      for (const { type, data } of frames) {
        if (type === "task_listed") put(data);
        else if (type === "list_gap") timer ??= setTimeout(() => list.load((timer = undefined)), 1000);
      }
      changed();
    });
    list.load();
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [list]);
  const now = useClock(list.complete ? 0 : 5000);
  useEffect(() => void (list.complete || list.load()), [now]);
  return list;
}

function TaskRow({ entry, can, live }) {
  const { task_id: taskId, status, reason } = entry;
  const [open, setOpen] = useState(false);
  const waits = waitsForUser(entry);
  return html`<article data-task=${taskId}>
    <a href=${addressOf(taskId)}><bdi>${entry.title || taskId}<//><//>
    <bdi>${entry.team}<//>
    <${Status} value=${status} />
    <span>${plural(entry.steps, "step")}<//>
    <span>${tokens(entry.tokens_in + entry.tokens_out)} tokens<//>
    <span>${entry.cost > 0 && `cost ${money(entry.cost)}`}<//>
    <span>${waits && "waits "}<${Age} at=${Date.parse(waits ? entry.updated_at : entry.created_at)} /><//>
    <div class="latest">${live && status === "running" ? html`<${Latest} taskId=${taskId} />` : html`<bdi>${plain(reason).replaceAll(/ \(tc_\w+\)/g, "")}<//> ${waits && html`<${TimeLeft} task=${entry} />`}`}<//>
    ${waits && html`<button data-open aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? "Close" : "Answer"}<//>`}
    ${open && waits && html`<${Answer} entry=${entry} can=${can} />`}
  <//>`;
}

function Latest({ taskId }) {
  const [said, say] = useState(null);
  useEffect(() => follow("latest", taskId, ({ frames, all }) => say(before => frames.reduce(hear, all ? null : before))), [taskId]);
  return said && html`<b>${said.agent}<//><span class="tail"><bdi>${said.text}<//><//>`;
}

function hear(said, { type, data: { agent_name: agent, step_id: step, attempt, replace, text, part } }) {
  if (type === "tool_call_part") return { agent, text: `calls ${part.tool_call.tool_name}` };
  if (type !== "text_part_delta") return said;
  const before = replace || said?.step !== step || said.attempt !== attempt ? "" : said.text;
  return { agent, step, attempt, text: (before + text).slice(-240) };
}

function Answer({ entry, can }) {
  const { task_id: taskId, status, team, steps, epoch } = entry;
  const isTurn = status === "user_turn" || status === "paused";
  const { data, problem, reload } = useLoad(() => request(taskPath(taskId, isTurn ? "result" : "pending")), [status, epoch]);
  return html`<div class="answer">
    <${Problem} problem=${problem} retry=${reload} />
    ${isTurn && html`
      ${data?.text && html`<blockquote dir="auto" tabindex="0">${data.text.slice(-2000)}<//>`}
      <${Controls} taskId=${taskId} task=${{ ...newTask(taskId), status, team, steps: Array(steps) }} summary=${entry} can=${can} />`}
    ${!isTurn && data && html`<${PendingCalls} taskId=${taskId} reason=${entry.reason} pending=${data} can=${can} />`}
  <//>`;
}

function Filters({ filters, me }) {
  const { data } = useLoad(() => request("v1/teams"), []);
  const teams = new Set((data?.teams ?? []).map(team => team.name).concat(filters.team ?? []));
  const change = event => {
    const given = [...new FormData(event.currentTarget)].filter(([, value]) => value.trim());
    location.hash = `#/?${new URLSearchParams(given)}`;
  };
  const select = (name, label, options) => html`<select name=${name} aria-label=${label} value=${filters[name] ?? ""}>
    <option value="">${label}<//>${options.map(option => html`<option value=${option}>${statusName(option)}<//>`)}
  <//>`;
  const input = (name, label) =>
    html`<input type="search" name=${name} aria-label=${label} placeholder=${label} value=${filters[name] ?? ""} />`;
  return html`<form class="row" role="search" onChange=${change} onSubmit=${event => event.preventDefault()}>
    ${input("text", "Search in titles")}
    ${select("status", "Any status", [...Object.keys(GROUPS), ...STATUSES])}
    ${select("team", "Any team", [...teams])}
    ${select("since", "Any time", Object.keys(HOURS))}
    <nav class="hint" aria-label="Views">${Object.entries(VIEWS).map(([name, to]) => html`<a href="#/?${to}">${name}<//>`)}<//>
    ${me.tenant === null && input("tenant", "Any tenant")}
  <//>`;
}
