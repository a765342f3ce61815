// schema_form: a form for a value that a JSON Schema describes. The schema may be hostile: a client has sent it.
//
//   schema ─► planForm: a bounded plan of fields ─► draft: what the user types ─► readDraft: the value, or a mistake
//             anything else, such as a $ref, a pattern or too many fields ─► a field for JSON

import { html } from "../vendor/preact.js";

const MAX_DEPTH = 6;
const MAX_FIELDS = 80;
const MAX_OPTIONS = 200;
const MAX_CHARS = 600;
const SIMPLE = ["string", "number", "integer", "boolean"];
const UNKNOWN = ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "prefixItems", "patternProperties"];

/** Return the plan of a schema: {kind, name, title, hint, required, given, and fields, item, options or value}. Pure. */
export function planForm(schema, name = "", required = true, depth = 0, budget = { fields: MAX_FIELDS }) {
  const field = { kind: "json", name, title: name, required };
  if (!isObject(schema)) return field;
  const text = key => (typeof schema[key] === "string" ? schema[key].slice(0, MAX_CHARS) : "");
  Object.assign(field, { title: text("title") || name, hint: text("description"), given: schema.default });
  budget.fields -= 1;
  if (depth > MAX_DEPTH || budget.fields < 0 || UNKNOWN.some(key => key in schema)) return field;
  const inner = (of, name, required) => planForm(of, name, required, depth + 1, budget);
  const { type, items, properties } = schema;
  if ("const" in schema || type === "null") return { ...field, kind: "const", value: schema.const ?? null };
  if (Array.isArray(schema.enum)) return schema.enum.length <= MAX_OPTIONS ? { ...field, kind: "enum", options: schema.enum } : field;
  if (SIMPLE.includes(type)) return { ...field, kind: type };
  if (type === "array" && isObject(items)) return { ...field, kind: "array", item: inner(items, "", true) };
  const members = type === "object" && isObject(properties) ? Object.entries(properties) : [];
  const needed = Array.isArray(schema.required) ? schema.required : [];
  if (!members.length || members.length > MAX_FIELDS || !needed.every(name => Object.hasOwn(properties, name))) return field;
  return { ...field, kind: "object", fields: members.map(([name, of]) => inner(of, name, needed.includes(name))) };
}

/** Return the draft of a value: texts, in lists where the plan has fields or items. A text instead of a list is JSON. */
export function draftOf(field, value = field.given) {
  if (field.kind === "object" && (value === undefined || isObject(value))) return field.fields.map(one => draftOf(one, value && Object.hasOwn(value, one.name) ? value[one.name] : undefined));
  if (field.kind === "array" && (value === undefined || Array.isArray(value))) return (value ?? []).slice(0, MAX_FIELDS).map(one => draftOf(field.item, one));
  return value === undefined || (field.kind === "string" && typeof value === "string") ? (value ?? "") : JSON.stringify(value, null, 2);
}

/** Return the value of a draft, or undefined if it is left out. Throws an Error that names the field. */
export function readDraft(field, draft, path = []) {
  const at = field.title === "" ? path : [...path, field.title];
  const { kind } = field;
  if (!field.required && isBlank(field, draft)) return undefined;
  if (kind === "const") return field.value;
  if (kind === "string") return draft;
  if (typeof draft !== "string") {
    if (kind === "array") return draft.map((one, index) => readDraft({ ...field.item, title: index + 1 }, one, at));
    const members = field.fields.map((one, index) => [one.name, readDraft(one, draft[index], at)]);
    return Object.fromEntries(members.filter(([, value]) => value !== undefined)); // __proto__ becomes a member, too
  }
  const value = parse(draft);
  const is = { json: true, object: isObject(value), array: Array.isArray(value), enum: field.options?.some(one => JSON.stringify(one) === JSON.stringify(value)), integer: Number.isInteger(value) }[kind] ?? typeof value === kind;
  const mistake = !draft.trim() ? "is missing" : value === undefined ? "is not JSON" : !is ? `is no ${kind === "enum" ? "option" : kind}` : isExact(value) ? "" : "is too large to be exact";
  if (mistake) throw new Error(`${at.join(" › ") || "the value"} ${mistake}`);
  return value;
}

/** Return {value} of a draft, or {problem}. */
export function outcome(field, draft) {
  try {
    return { value: readDraft(field, draft) };
  } catch (mistake) {
    return { problem: mistake.message };
  }
}

/** Return false if a browser has not kept a number exactly. */
export const isExact = value =>
  typeof value === "number" ? Number.isFinite(value) && !(Math.abs(value) > Number.MAX_SAFE_INTEGER) : typeof value !== "object" || Object.values(value ?? {}).every(isExact);
export const isObject = value => typeof value === "object" && value !== null && !Array.isArray(value);

const isBlank = ({ kind, fields }, draft) => kind === "const" || (kind === "object" && Array.isArray(draft) ? fields.every((one, index) => isBlank(one, draft[index])) : draft.length === 0);

/** Return the value of JSON, or undefined. What does not begin as JSON is a text, so that people need no quotes. */
function parse(draft) {
  try {
    return JSON.parse(draft);
  } catch {
    return /^\s*["[{]/.test(draft) ? undefined : draft;
  }
}

/** The field of a plan, with its fields. */
export function Field({ field, draft, onDraft }) {
  const { kind } = field;
  const name = html`<span><span class="hostile" dir="auto">${field.title}</span> <small class="dim hostile" dir="auto">${field.required ? "" : "optional "}${field.hint}</small></span>`;
  if (typeof draft === "string") return html`<label>${name}<${Input} field=${field} draft=${draft} typed=${event => onDraft(event.target.value)} /></label>`;
  const part = (one, index, end) => html`<div class="item" key=${index}><${Field} field=${one} draft=${draft[index]} onDraft=${inner => onDraft(draft.with(index, inner))} />${end}</div>`;
  const button = (text, label, next) => html`<button type="button" aria-label=${label} onClick=${() => onDraft(next())}>${text}</button>`;
  return html`<fieldset class=${field.title === "" ? "form" : ""}><legend>${field.title !== "" && name}</legend>
    ${kind === "object" ? field.fields.map((one, index) => part(one, index)) : draft.map((_, index) => part({ ...field.item, title: index + 1 }, index, button("✕", `Remove ${index + 1}`, () => draft.toSpliced(index, 1))))}
    ${kind === "array" && draft.length < MAX_FIELDS && button("Add", null, () => [...draft, draftOf(field.item)])}
    ${field.name && button("As JSON", null, () => JSON.stringify(outcome(field, draft).value, null, 2) ?? "")}
  </fieldset>`;
}

function Input({ field: { kind, name, value, options = [true, false] }, draft, typed }) {
  const shown = option => (typeof option === "string" ? option : JSON.stringify(option)).slice(0, MAX_CHARS);
  if (kind === "const") return html`<code class="hostile" dir="auto">${shown(value)}</code>`;
  if (kind === "boolean" || kind === "enum") return html`<select name=${name} value=${draft} onChange=${typed}><option value=""></option>${options.map(one => html`<option value=${JSON.stringify(one)}>${shown(one).replace(/^true$/, "yes").replace(/^false$/, "no")}</option>`)}</select>`;
  if (kind === "number" || kind === "integer") return html`<input name=${name} value=${draft} onInput=${typed} inputmode="decimal" autocomplete="off" />`;
  return html`<textarea name=${name} class=${kind === "string" ? "" : "mono"} rows=${Math.min(14, draft.split("\n").length + 1)} value=${draft} onInput=${typed} spellcheck="false" dir="auto" />`;
}
