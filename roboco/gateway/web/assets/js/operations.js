// operations: the deployment as it is, and each operation for operators.

import { html } from "../vendor/preact.js";
import { Action, actionsOf, Table, taskLink } from "./actions.js";
import { actionAddress, request, requestText } from "./api.js";
import { duration, number } from "./format.js";
import { Problem, useLoad } from "./ui.js";

const USAGE = ["day", "tenant", "team", "agent", "model", "tool"];
const TOOLS = { Tasks: /stuck|what_if|control_|usage/, Data: /eras|memory|retention|port_task/, Deployment: /./ }; // group ─► its operations
const groupOf = name => Object.keys(TOOLS).find(group => TOOLS[group].test(name));
const OF_LETTERS = { Show: "get_dead_letter", "Requeue …": "requeue_dead_letter", "Dismiss …": "dismiss_dead_letter" };

export const OperationsPage = ({ can, ...given }) => html`<main tabindex="0" data-page="operations">
  <h1 class="visually-hidden">Operations<//>
  ${can("operate") ? html`<${Parts} ...${given} />` : html`<${Problem} problem=${{ message: "Sign in with a key that has the scope operate." }} />`}
<//>`;

const usePoll = (path, interval = 5000) => useLoad(() => request(`v1/operations${path}`, { signal: AbortSignal.timeout(15000) }), [], interval);

function Parts({ action, query }) {
  const { data: actions, problem, reload } = useLoad(async () => actionsOf(JSON.parse((await requestText("v1/openapi.json")).replaceAll("`", ""))), []);
  const [overview, queues, workers, rates, switches, letters] = ["", "/queues", "/workers", "/rates", "/switches", "/dead-letters"].map(path => usePoll(path));
  const stuck = usePoll("/stuck?limit=50", 20000);
  const { open_tasks: open, flower_url: flower } = overview.data ?? {};
  const unknown = action && actions && !actions[action] && { message: "The gateway has no such operation." };
  const { data: waits } = useLoad(() => request("v1/tasks?status=waiting&limit=200"), [], 20000);
  const urgent = [
    html`<${Part} name="Stuck tasks" list="tasks" part=${stuck} empty="No task is stuck." more="list_stuck_tasks" />`,
    html`<${Part} name="Dead letters" part=${letters} empty="There are no dead letters." more="list_dead_letters"
      row=${({ letter_id, name, task_id, queue, detail, reason, time, may_requeue }) => ({
        letter_id, name, of: html`${task_id ? taskLink(task_id) : queue} ${detail}`, reason, time,
        actions: html`<div class="row">${Object.entries(OF_LETTERS).map(([text, name]) => (may_requeue || name[0] !== "r") && link(text, name, { letter_id }))}<//>`,
      })} />`,
    html`<${Part} name="Switches" part=${switches} empty="Nothing is switched off."
      row=${one => ({ ...one, action: link("Switch on …", "switch_on", { target: one.target }) })} />`,
  ];
  const needsMe = urgent.filter(({ props: { name, list = listOf(name), part } }) => part.problem || part.data?.[list].length);
  const dead = workers.data?.pools.filter(pool => !pool.live) ?? [];
  const isCalm = !needsMe.length && !dead.length && !waits?.tasks.length;
  return html`
    <section class=${isCalm ? "" : "waits"} aria-label="Needs you now"><h2>${isCalm ? "Nothing needs you now" : "Needs you now"}<//>
      ${waits?.tasks.length > 0 && html`<p><a href="#/?status=waiting">Tasks that wait for a person: ${waits.tasks.length}${waits.cursor && "+"}<//><//>`}
      ${dead.map(({ name }) => html`<p class="bad">No worker of the pool ${name} is alive: its work waits. Start one with <code>roboco worker<//>.<//>`)}
      ${needsMe}
    <//>
    <h2>Health<//>
    <div class="facts row">
      ${fact("open tasks", open)}
      ${workers.data?.pools.map(pool => fact(`live in ${pool.name}`, pool.live, !pool.live))}
      ${flower && outside(flower, "Flower ↗")}
    <//>
    <${Problem} problem=${overview.problem} />
    <${Problem} problem=${unknown || problem} retry=${reload} />
    <div class="parts">
      <${Part} name="Queues" part=${queues} />
      <${Part} name="Rates" part=${rates} empty="No model has a limit."
        row=${({ requests, max_requests, tokens, max_tokens, ...one }) => ({ ...one, "requests / min": use(requests, max_requests), "tokens / min": use(tokens, max_tokens) })} />
    <//>
    <${Part} name="Workers" part=${workers} empty="No worker has registered. Start workers with roboco worker, or a whole stack with roboco dev."
      row=${one => ({
        name: one.name, Flower: flower && outside(`${flower}/worker/${encodeURIComponent(one.name)}`, "↗"),
        pools: one.pools.join(", "),
        heartbeat: one.alive ? `${seconds(one.silent_for)} ago` : `silent for ${seconds(one.silent_for)}`,
        running: one.running.map(id => html`<div>${id.includes("/") ? taskLink(id.split("/")[0], id) : id}<//>`),
        action: one.draining ? `drains ${seconds(one.drains_for)}` : one.alive ? link("Drain …", "drain_worker", { worker: one.name }) : "",
      })} />
    <div class="parts">${urgent.filter(part => !needsMe.includes(part))}<//>
    <section aria-label="All operations"><h2>Tools<//>
      <p class="row"><span class="dim">Usage by<//>${USAGE.map(by => link(by, "report_usage", { by }))}<//>
      ${Object.keys(TOOLS).map(group => html`<p class="row"><span class="dim">${group}<//>${Object.entries(actions ?? {}).map(([name, { title }]) => groupOf(name) === group && link(title, name))}<//>`)}<//>
    ${actions?.[action] && html`<${Action} key=${location.hash} name=${action} actions=${actions} query=${query} onClose=${() => (location.hash = "#/operations")} />`}`;
}

const link = (text, name, given) => html`<a href=${actionAddress(name, given)}>${text}<//>`;
const fact = (name, value, bad) => html`<span class=${bad ? "bad" : ""}><b>${value == null ? "–" : number(value)}<//> ${name}<//>`;
const outside = (href, text) => html`<a href=${href} target="_blank" rel="noreferrer"><bdi>${text}<//><//>`;
const seconds = value => (value > 0 ? duration(value * 1000) : "");
const use = (used, limit) => limit && html`${number(used)} of ${number(limit)} <meter max=${limit} high=${limit * 0.9} value=${used} aria-label="used" />`;

const listOf = name => name.toLowerCase().replace(" ", "_");

/** A table of the list in the answer that has the part's name. `more` is the operation that lists all. */
function Part({ name, list = listOf(name), part: { data, problem, reload }, row = one => one, empty, more }) {
  const entries = data?.[list] ?? [];
  return html`<section aria-label=${name} class=${problem ? "stale" : ""}>
    <h2>${name}<//>
    <${Problem} problem=${problem} retry=${reload} />
    ${entries.length > 0 && html`<${Table} rows=${entries.map(row)} />`}
    ${!entries.length && !problem && html`<p class="dim">${data ? empty : "reading …"}<//>`}
    ${data?.cursor && link("More …", more)}
  <//>`;
}
