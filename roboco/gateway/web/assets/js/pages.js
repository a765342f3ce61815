// pages: the list of tasks, and the operations page.
//
//   pages of GET v1/tasks ─► entries ◄─ task_listed, if it is newer      list_gap ─► read the pages again

import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import { newKey, post, request, taskPath } from "./api.js";
import { CallActions, Controls } from "./controls.js";
import { duration, json, money, number, plural, statusName, tokens } from "./format.js";
import { follow } from "./streams.js";
import { ENDED, WAITING, newTask } from "./task_state.js";
import { addressOf, Age, Banner, Dialog, Problem, Status, useAction, useFrame, useLoad } from "./ui.js";

const MOST_TASKS = 1000; // tasks that the page keeps
const STATUSES = ["queued", "running", ...WAITING, ...ENDED];
const GROUPS = { waiting: [...WAITING], open: STATUSES.filter(status => !ENDED.has(status)), ended: [...ENDED] };
const HOURS = { "1h": 1, "1d": 24, "7d": 168, "30d": 720 };

export function ListPage({ me, can, query }) {
  const filters = Object.fromEntries(query);
  const list = useTasks(filters);
  const shown = [...list.entries.values()].filter(entry => meets(entry, filters)).sort((a, b) => (a.updated_at < b.updated_at ? 1 : -1));
  const waiting = shown.filter(({ status }) => WAITING.has(status)).reverse();
  const others = shown.filter(({ status }) => !WAITING.has(status));
  return html`<main tabindex="0" data-page="list">
    <h1 class="visually-hidden">Tasks</h1>
    <${Filters} filters=${filters} me=${me} />
    ${can("operate") && query.size > 0 && html`<${StopAll} key=${query} filters=${filters} />`}
    ${list.state === "lost" && html`<${Banner} kind="lost">The gateway does not answer. This is the last state.<//>`}
    ${!list.complete && html`<${Banner} kind="rebuild">The task index is being rebuilt: tasks may be missing.<//>`}
    <${Problem} problem=${list.problem} retry=${() => list.load()} />
    ${waiting.length > 0 && html`<section class="waits" aria-label="Tasks that wait for you">
      <h2>${plural(waiting.length, "task")} for you</h2>
      ${waiting.map(entry => html`<${TaskRow} key=${entry.task_id} entry=${entry} can=${can} />`)}
    </section>`}
    <section aria-label="Tasks">${others.map((entry, i) => html`<${TaskRow} key=${entry.task_id} entry=${entry} live=${i < 60} />`)}</section>
    ${list.cursor && html`<button disabled=${list.loading} onClick=${() => list.load(list.cursor)}>Older tasks</button>`}
    ${!shown.length && !list.loading && !list.problem && html`<p class="empty dim">No task meets these conditions.</p>`}
  </main>`;
}

const meets = (entry, { status, team, text = "", tenant, since }) =>
  (!status || (GROUPS[status] ?? [status]).includes(entry.status)) && (!team || entry.team === team) &&
  (!tenant || entry.task_id.startsWith(`${tenant}:`)) && entry.title.toLowerCase().includes(text.toLowerCase()) &&
  (!since || Date.parse(entry.updated_at) >= Date.now() - HOURS[since] * 36e5);

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
  useEffect(() => {
    const again = !list.complete && setInterval(() => list.load(), 5000);
    return () => clearInterval(again);
  }, [list, list.complete]);
  return list;
}

function TaskRow({ entry, can, live }) {
  const { task_id: taskId, status, reason } = entry;
  const [open, setOpen] = useState(false);
  const waits = WAITING.has(status);
  return html`<article data-task=${taskId}>
    <a href=${addressOf(taskId)}><bdi>${entry.title || taskId}<//></a>
    <bdi>${entry.team}<//>
    <${Status} value=${status} />
    <span>${plural(entry.steps, "step")}</span>
    <span>${tokens(entry.tokens_in + entry.tokens_out)} tokens</span>
    <span>${money(entry.cost)}</span>
    <${Age} at=${Date.parse(waits ? entry.updated_at : entry.created_at)} />
    <div class="latest">${live && status === "running" ? html`<${Latest} taskId=${taskId} />` : html`<bdi>${reason}<//>`}</div>
    ${waits && html`<button data-open aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? "Close" : "Answer"}</button>`}
    ${open && waits && html`<${Answer} entry=${entry} can=${can} />`}
  </article>`;
}

function Latest({ taskId }) {
  const [said, say] = useState(null);
  useEffect(() => follow("latest", taskId, ({ frames, all }) => say(before => frames.reduce(hear, all ? null : before))), [taskId]);
  return said && html`<b>${said.agent}</b><span class="tail"><bdi>${said.text}<//></span>`;
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
  const calls = Object.entries(isTurn || !data ? {} : { approval: data.unapproved, answer: data.unanswered, resolution: data.unknown });
  return html`<div class="answer">
    <${Problem} problem=${problem} retry=${reload} />
    ${isTurn && html`
      ${data?.text && html`<blockquote dir="auto" tabindex="0">${data.text.slice(-2000)}<//>`}
      <${Controls} taskId=${taskId} task=${{ ...newTask(taskId), status, team, steps: Array(steps) }} summary=${entry} can=${can} />`}
    ${calls.map(([wants, waiting]) => waiting.map(({ id, tool_name: tool, args }) => html`<div key=${id}><code dir="auto">${tool} ${json(args, 400)}<//>
      <${CallActions} taskId=${taskId} task=${null} wants=${wants} can=${can} change=${data.changes[id]} call=${{ id, tool, args, result: null }} /></div>`))}
  </div>`;
}

function Filters({ filters, me }) {
  const { data } = useLoad(() => request("v1/teams"), []);
  const teams = new Set((data?.teams ?? []).map(team => team.name).concat(filters.team ?? []));
  const change = event => {
    const given = [...new FormData(event.currentTarget)].filter(([, value]) => value.trim());
    location.hash = `#/?${new URLSearchParams(given)}`;
  };
  const select = (name, label, options) => html`<select name=${name} aria-label=${label} value=${filters[name] ?? ""}>
    <option value="">${label}</option>${options.map(option => html`<option value=${option}>${statusName(option)}</option>`)}
  </select>`;
  const input = (name, label) =>
    html`<input type="search" name=${name} aria-label=${label} placeholder=${label} value=${filters[name] ?? ""} />`;
  return html`<form class="row" role="search" onChange=${change} onSubmit=${event => event.preventDefault()}>
    ${input("text", "Search in titles")}
    ${select("status", "Any status", [...Object.keys(GROUPS), ...STATUSES])}
    ${select("team", "Any team", [...teams])}
    ${select("since", "Any time", Object.keys(HOURS))}
    ${me.tenant === null && input("tenant", "Any tenant")}
  </form>`;
}

/** Stops the open tasks that meet the filters: they are counted first. The same attempt again stops none twice. */
function StopAll({ filters: { status, team, ...others } }) {
  const [asked, ask] = useState(null);
  const [done, setDone] = useState("");
  const send = more => post(`${ROOT}/bulk`, { control: "stop", ...others, status: status ? [status] : [], team: team ? [team] : null, ...more });
  const [count, { problem }] = useAction(async () => ask({ ...(await send({ dry_run: true })), bulk_id: newKey() }));
  const [stop, { busy, problem: failed }] = useAction(async event => {
    event.preventDefault();
    const reason = event.target.reason.value;
    let accepted = 0;
    for (let cursor = ""; ; ) {
      const page = await send({ reason, cursor, ...(!cursor && { bulk_id: asked.bulk_id }) });
      accepted += page.counts.accepted + page.counts.repeated;
      if (!(cursor = page.cursor)) break;
    }
    ask(null);
    setDone(`${plural(accepted, "task")} stopped.`);
  });
  return html`<div class="row"><button class="danger" data-action="stop-all" onClick=${count}>Stop all of these …</button> <span role="status">${done}</span><${Problem} problem=${problem} /></div>
    ${asked && html`<${Dialog} title=${`Stop ${plural(asked.matching, "open task")}?`} onClose=${() => ask(null)}><form onSubmit=${stop}>
      <label>Reason <input name="reason" required /></label><${Problem} problem=${failed} />
      <div class="row"><button type="button" onClick=${() => ask(null)}>Cancel</button><button class="danger" data-action="confirm" disabled=${busy || !asked.matching}>Stop</button></div>
    </form><//>`}`;
}

const ROOT = "v1/operations";
const EFFECTS = {
  Requeue: "Sends it again. Remove the cause first, or it returns.",
  Dismiss: "Deletes it for good, without sending it. This cannot be undone.",
};

export const OperationsPage = ({ can }) => html`<main tabindex="0" data-page="operations">
  <h1 class="visually-hidden">Operations</h1>
  ${can("operate") ? html`<${Parts} />` : html`<${Problem} problem=${{ message: "Sign in with a key that has the scope operate." }} />`}
</main>`;

const usePoll = path => useLoad(() => request(ROOT + path, { signal: AbortSignal.timeout(15000) }), [path], 5000);

function Parts() {
  const [cursor, setCursor] = useState("");
  const [chosen, choose] = useState(null); // [letter, action]
  const overview = usePoll("");
  const [queues, workers, rates] = [usePoll("/queues"), usePoll("/workers"), usePoll("/rates")];
  const switches = usePoll("/switches");
  const [turn, { problem: refused }] = useAction(async (to, body) => [await post(`${ROOT}/switches/${to}`, body), switches.reload()]);
  const turnOff = event => [event.preventDefault(), turn("off", Object.fromEntries(new FormData(event.target)))];
  const letters = usePoll(`/dead-letters?cursor=${encodeURIComponent(cursor)}`);
  const { open_tasks: open, dead_letters: dead, flower_url: flower } = overview.data ?? {};
  const [done, setDone] = useState("");
  const finish = text => {
    choose(null);
    setDone(text);
    [letters, overview].forEach(part => part.reload());
  };
  return html`
    <div class="facts row">
      ${fact("open tasks", open)}${fact("dead letters", dead, dead)}
      ${workers.data?.pools.map(pool => fact(`live in ${pool.name}`, pool.live, !pool.live))}
      ${flower && outside(flower, "Flower ↗")}
    </div>
    <${Problem} problem=${overview.problem} />
    <div class="parts">
      <${Part} name="Queues" part=${queues} heads="Queue,Waiting,Oldest" row=${one => [one.name, number(one.waiting), seconds(one.oldest_age)]} />
      <${Part} name="Rates" part=${rates} heads="Model,Requests / min,Tokens / min,Waiting,Paused" empty="No model has a limit."
        row=${one => [one.model, use(one.requests, one.max_requests), use(one.tokens, one.max_tokens), number(one.waiting), seconds(one.pause_left)]} />
    </div>
    <${Part} name="Workers" part=${workers} heads="Worker,Pools,Heartbeat,Running" empty="None has registered."
      row=${one => [
        flower ? outside(`${flower}/worker/${encodeURIComponent(one.name)}`, one.name) : one.name,
        one.pools.join(", "),
        one.alive ? `${duration(one.silent_for * 1000)} ago` : `silent for ${duration(one.silent_for * 1000)}`,
        one.running.map(id => html`<div>${id.includes("/") ? taskLink(id.split("/")[0], id) : id}</div>`),
      ]} />
    <${Part} name="Switches" part=${switches} heads="Switched off,Reason,By,For,Action" empty="Nothing is switched off."
      row=${one => [one.target, one.reason, one.by, html`<${Age} at=${Date.parse(one.since)} />`, html`<button onClick=${() => turn("on", { target: one.target })}>Switch on</button>`]} />
    <form class="row" onSubmit=${turnOff}>
      <input name="target" required aria-label="What to switch off" placeholder="team:NAME, model:NAME, tool:NAME …" />
      <input name="reason" required aria-label="Reason" placeholder="Reason" /> <button class="danger">Switch off</button>
    </form>
    <${Problem} problem=${refused} />
    <${Part} name="Dead letters" part=${letters} heads="Message,Of,Reason,Age,Actions" empty="There are none."
      row=${one => [
        one.name, [one.task_id ? taskLink(one.task_id) : one.queue, " ", one.detail], one.reason, html`<${Age} at=${Date.parse(one.time)} />`,
        Object.keys(EFFECTS).map(action => html`
          <button disabled=${action === "Requeue" && !one.may_requeue} onClick=${() => choose([one, action])}>${action}</button> `),
      ]} />
    ${done && html`<${Banner} kind="done">${done}<//>`}
    ${cursor && html`<button onClick=${() => setCursor("")}>Newest</button> `}
    ${letters.data?.cursor && html`<button onClick=${() => setCursor(letters.data.cursor)}>Older</button>`}
    ${chosen && html`<${Decide} letter=${chosen[0]} action=${chosen[1]} onDone=${finish} onClose=${() => choose(null)} />`}`;
}

function Decide({ letter, action, onDone, onClose }) {
  const path = `${ROOT}/dead-letters/${encodeURIComponent(letter.letter_id)}`;
  const [decide, { busy, problem }] = useAction(async () => {
    await post(`${path}/${action.toLowerCase()}`);
    onDone(`${action.replace(/e?$/, "ed")}: ${letter.letter_id}`);
  });
  return html`<${Dialog} title=${`${action} this dead letter?`} onClose=${onClose}>
    <p><bdi>${letter.name} ${letter.task_id}<//> ${outside(path, "Headers and body ↗")}</p>
    <p>${EFFECTS[action]}</p>
    <${Problem} problem=${problem} />
    <button class="danger" data-confirm disabled=${busy} onClick=${decide}>${action}</button> <button onClick=${onClose}>Cancel</button>
  <//>`;
}

const fact = (name, value, bad) => html`<span class=${bad ? "bad" : ""}><b>${value == null ? "–" : number(value)}</b> ${name}</span>`;
const outside = (href, text) => html`<a href=${href} target="_blank" rel="noreferrer"><bdi>${text}<//></a>`;
const taskLink = (id, text = id) => html`<a href=${addressOf(id)}>${text}</a>`;
const seconds = value => value > 0 && duration(value * 1000);
const use = (used, limit) => limit && html`${number(used)} of ${number(limit)} <meter max=${limit} high=${limit * 0.9} value=${used} aria-label="used" />`;

/** A table of the list in the answer that has the part's name. On a narrow page each row is a card. */
function Part({ name, part: { data, problem, reload }, heads, row, empty }) {
  const entries = data?.[name.toLowerCase().replace(" ", "_")] ?? [];
  const titles = heads.split(",");
  return html`<section aria-label=${name} class=${problem ? "stale" : ""}>
    <h2>${name}</h2>
    <${Problem} problem=${problem} retry=${reload} />
    ${entries.length > 0 && html`<table><thead><tr>${titles.map(title => html`<th>${title}</th>`)}</tr></thead>
      <tbody>${entries.map(one => html`<tr key=${one.letter_id ?? one.name ?? one.target} data-letter=${one.letter_id}>
        ${row(one).map((cell, i) => html`<td dir="auto" data-head=${titles[i]}>${cell}<//>`)}</tr>`)}</tbody></table>`}
    ${!entries.length && !problem && html`<p class="dim">${data ? empty : "reading …"}</p>`}
  </section>`;
}
