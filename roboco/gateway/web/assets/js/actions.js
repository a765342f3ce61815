// actions: each operation for operators, as a form that the gateway's own description yields.
//
//   #/operations/NAME?FIELD=VALUE ─► form ─┬─ one request ─► tables and facts, or a file
//                                          └─ with dry_run: count ─► confirm ─► page, page, ... (after an error: from there)

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { actionAddress, newKey, send } from "./api.js";
import { Field, formOf, isObject, valueOf } from "./controls.js";
import { bytes, duration, number, plural } from "./format.js";
import { facts } from "./inspector.js";
import { addressOf, Age, Dialog, Problem, useAction } from "./ui.js";

const MOST_ROWS = 500; // of a table
const GOES_ON = /"status":"(queued|running|erasing)"/;

/** Return the operations for operators by their names, from the OpenAPI document of the gateway. */
export function actionsOf({ paths, components: { schemas } }) {
  const plain = ({ $ref, anyOf = [], ...own } = {}, depth = 0) => {
    const [inner, more] = $ref ? [schemas[$ref.split("/").pop()]] : anyOf.filter(({ type }) => type !== "null");
    if (inner && !more && depth < 9) return plain({ ...inner, ...own }, depth + 1);
    const fields = Object.entries(own.properties ?? {}).map(([name, one]) => [name, plain({ title: name, ...one }, depth + 1)]);
    return { ...own, ...(more && { anyOf }), properties: Object.fromEntries(fields), default: isEmpty(own.default) ? null : own.default };
  };
  const found = {};
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, { operationId, tags, summary: title, description: hint, parameters = [], requestBody }] of Object.entries(methods)) {
      if (!tags?.includes("operations") && !path.includes("what-if")) continue;
      const [properties, { properties: more, required = [] }] = [{}, plain(requestBody?.content["application/json"].schema)];
      for (const { name, in: place, schema, description, required: needed } of parameters) {
        if (place !== "path" && method !== "get") continue; // a wait, or a key
        properties[name] = plain({ ...schema, description });
        if (needed) required.push(name);
      }
      const { cursor, limit, bulk_id, dry_run: isPaged, ...fields } = { ...properties, ...more }; // the page fills these in
      found[operationId] = { path, method, title, hint, isPaged, schema: { type: "object", properties: fields, required } };
    }
  }
  return found;
}

export function requestOf({ path, method }, values, key) {
  const rest = Object.entries(values).filter(([name, value]) => path === (path = path.replace(`{${name}}`, encodeURIComponent(value))));
  if (method === "get") return [`${path.slice(1)}?${new URLSearchParams(rest.flatMap(([name, value]) => [].concat(value).map(one => [name, one])))}`, {}];
  const headers = { "Content-Type": "application/json", "Idempotency-Key": key };
  return [path.slice(1), { method, headers, body: JSON.stringify(Object.fromEntries(rest)) }];
}

/** Save the file that an answer is, and return facts about it. */
async function save(answer, download) {
  const file = await answer.blob();
  const href = URL.createObjectURL(file);
  Object.assign(document.createElement("a"), { href, download }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60000);
  return { saved: download, size: bytes(file.size) };
}

/** Return the answer with the entries of the pages before. The last outcome of a task counts. */
export const joined = (before, answer) => !before ? answer : Object.fromEntries(Object.entries(answer).map(([name, value]) => [
  name, /^(matching|unreadable)$/.test(name) ? value + before[name] : !Array.isArray(value) ? value : [...new Map([...before[name], ...value].map(one => [one.task_id ?? one, one])).values()],
]));

/** Return the fields of the request that follows a count. Tasks and calls that have changed since `until` were not counted. */
export const confirmed = ({ until }) => ({ dry_run: false, ...(until && { until }) });

/** An operation in a dialog. `query` are values of its fields. */
export function Action({ name, actions, query, onClose }) {
  const { title, hint, method, path, schema, isPaged } = actions[name];
  const isRead = method === "get";
  const [form] = useState(() => {
    const { fields } = formOf(schema);
    for (const field of fields ?? []) {
      const text = query.get(field.name) ?? field.text;
      field.text = field.options?.find(one => one === JSON.stringify(text)) ?? text;
    }
    return { fields: fields ?? [] };
  });
  const [{ answer, sent }, show] = useState({}); // `sent` is {}, or whether the pages are a dry run
  const held = useRef({}).current; // {values, key, ended}
  const changed = () => show((held.key = null) ?? {});
  const call = async more => {
    const found = await send(...requestOf(actions[name], { ...held.values, ...more }, (held.key ??= newKey())));
    return /^application\/json/.test(found.headers.get("Content-Type")) ? found.json() : save(found, `${held.values.task_id ?? name}.${held.values.format ?? "tar"}`);
  };
  const [run, { busy, problem }] = useAction(async (more, isNext) => {
    let all = isNext ? answer : null;
    if (!isNext && more.dry_run !== false) {
      held.values = valueOf({ ...form, required: true });
      const { control = "stop", reason } = held.values;
      if ("reason" in schema.properties && !reason && /stop|retry|deny/.test(control)) throw new Error("The reason is missing: it is recorded.");
    }
    do {
      all = joined(all, await call({ ...more, ...(all && { cursor: all.cursor, ...(all.until && { until: all.until }) }) }));
      show({ answer: all, sent: more });
    } while (isPaged && all.cursor && !held.ended);
    const known = { ...all, ...held.values };
    const next = Object.entries(actions).find(([, one]) => !isRead && one.method === "get" && one.path.startsWith(path) && one.schema.required.every(name => name in known));
    if (next) location.replace(document.hash = actionAddress(next[0], next[1].schema.required.map(name => [name, known[name]])));
  });
  useEffect(() => {
    if (isRead && document.hash === location.hash && form.fields.every(one => !one.required || one.text)) run({});
    return () => (held.ended = true);
  }, []);
  useEffect(() => {
    const timer = isRead && answer && !("cursor" in answer) && GOES_ON.test(JSON.stringify(answer)) && setTimeout(run, 3000, {});
    return () => clearTimeout(timer);
  }, [answer, problem]);
  const next = answer?.cursor && (() => run(sent, true));
  const count = answer && sent.dry_run && !next && !busy && (answer.matching ?? answer.tasks.length);
  const isOver = !isRead && answer && !sent.dry_run && !next;
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <p class="hint">${hint}<//>
    ${!isOver && html`<details open=${!answer}><summary>Request<//><form onSubmit=${event => [event.preventDefault(), run(isPaged ? { dry_run: true } : {})]}>
      ${form.fields.map(field => html`<${Field} field=${field} changed=${changed} />`)}
      <div><button class=${isRead ? "primary" : "danger"} data-action="run" disabled=${busy}>${isPaged ? "Count first" : isRead ? "Show" : title}<//><//>
    <//><//>`}
    <p role="status">${busy ? (isRead && answer ? "" : "The gateway is at work …") : isOver ? "Done." : count === 0 ? "No task meets these conditions." : ""}<//>
    <${Problem} problem=${problem} retry=${isPaged && next} />
    <div class="row">
      ${count > 0 && html`<button class="danger" data-action="confirm" onClick=${() => run(confirmed(answer))}>${held.values.control ?? title.split(" ")[0]} ${plural(count, "task")}<//>`}
      ${!isPaged && next && html`<button data-action="more" disabled=${busy} onClick=${next}>More<//>`}
      <button data-action="close" onClick=${onClose}>${busy && isPaged ? "Stop here" : "Close"}<//><//>
    ${answer && html`<${Outcome} of=${answer} more=${name === "get_memory" && (({ id: entry, ...one }) => ({
      ...one, action: html`<a href=${actionAddress("erase_memory", { ...held.values, entry })}>Forget …<//>`,
    }))} />`}
  <//>`;
}

const inWords = value => (Array.isArray(value) && !isObject(value[0]) ? value.join(", ") : value);
const isEmpty = value => value == null || value === "" || (Object(value) === value && !Object.keys(value).length);
const isMarkup = value => value && value.constructor === undefined; // JSON has no undefined
const valueIn = (name, value, row) => isEmpty(value) || isMarkup(value) || isMarkup(value[0]) ? value : name === "task_id" ? taskLink(value)
  : name === "step_id" && row.task_id ? html`<a href=${addressOf(row.task_id, value)}>step<//>`
  : /^\d{4}-\d\d-\d\dT/.test(value) ? html`<${Age} at=${Date.parse(value)} />`
  : /(_for|_age|_left|seconds)$/.test(name) ? duration(value * 1000) : typeof inWords(value) === "string" ? inWords(value) : facts(value, name);

/** Return [facts, tables] of an answer. A list of objects is a table, and an object that is like them is its first row. */
export function partsOf({ cursor, until, counts, ...answer }) {
  const [rest, tables] = [{}, Object.entries(answer).filter(([, value]) => isObject(value?.[0]))];
  for (const [name, value] of Object.entries(answer)) {
    const like = tables.find(one => one[0] === name || (isObject(value) && Object.keys(one[1][0]).join() === Object.keys(value).join()));
    if (!like) rest[name] = inWords(value);
    else if (like[0] !== name) like[1] = [{ row: name, ...value }, ...like[1]];
  }
  for (const one of tables.flatMap(([, rows]) => rows)) if (one.outcome) rest[one.outcome] = (rest[one.outcome] ?? 0) + 1;
  return [rest, tables];
}

/** An answer. `more` adds to the rows of its tables; many can be searched. */
function Outcome({ of, more }) {
  const [text, search] = useState("");
  const [known, tables] = partsOf(of);
  const meets = row => JSON.stringify(Object.values(row)).toLowerCase().includes(text.toLowerCase());
  return html`${(!tables.length || !Object.values(known).every(isEmpty)) && facts(known)}${tables.map(([name, rows]) => html`<section aria-label=${name} tabindex="0">
    ${rows.length > 5 && html`<input type="search" aria-label="Search" placeholder=${`Search in ${plural(rows.length, "row")}`} onInput=${event => search(event.target.value)} />`}
    <${Table} rows=${rows.filter(meets).toSorted((a, b) => !a.cause - !b.cause).map(more || (one => one))} /><//>`)}`;
}

export const taskLink = (id, text = id) => html`<a href=${addressOf(id)}>${text}<//>`;

/** The names in `rows` are columns, but what is empty. On a narrow page each row is a card. */
export function Table({ rows }) {
  const shown = rows.slice(0, MOST_ROWS);
  const label = name => name.replaceAll("_", " ");
  const heads = [...new Set(shown.flatMap(Object.keys))].filter(name => shown.some(one => !isEmpty(one[name])));
  return html`<table><thead><tr>${heads.map(name => html`<th>${label(name)}<//>`)}<//><//>
    <tbody>${shown.map(one => html`<tr data-row=${one.task_id ?? one.letter_id ?? one.target ?? one.name}>${heads.map(name => html`<td dir="auto" data-head=${label(name)}>${valueIn(name, one[name], one)}<//>`)}<//>`)}<//><//>
    ${rows.length > MOST_ROWS && html`<p>${number(rows.length - MOST_ROWS)} more rows are not shown.<//>`}`;
}
