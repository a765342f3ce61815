// decision: what a user decides is sent once, however often it is clicked or tried again.
//
//   decision ─► key, one for each content ─► POST ─► no answer: "try again" sends the same key, which has one effect

import { html, useRef, useState } from "../vendor/preact.js";
import { newKey, post } from "./api.js";
import { Field, draftOf, outcome, planForm } from "./schema_form.js";
import { Dialog, Problem, useAction } from "./ui.js";

const REPEATED = 500; // milliseconds after a success in which the same again is part of a double click
let ids = 0;

/** Return [run, state]: run(path, body) sends a decision; state.retry sends it again, with its key. */
export function useDecision(done) {
  const held = useRef({ at: 0 }).current;
  const [run, state] = useAction(async (path, body, send = post) => {
    const now = Date.now();
    const content = JSON.stringify([path, body]);
    if (content === held.sent && now - held.at < REPEATED) return void (held.at = now); // a key that is held down repeats for longer
    if (content !== held.content) Object.assign(held, { content, key: newKey(), again: [path, body, send] });
    const result = await send(path, body, held.key);
    Object.assign(held, { content: "", sent: content, at: Date.now() });
    return void done(result, body);
  });
  const { status } = state.problem ?? {};
  return [run, { ...state, retry: status === 0 || status >= 429 ? () => run(...held.again) : null }];
}

/** A button of an action. With `why` it is disabled, and says why. */
export function ActionButton({ action, why, children, ...rest }) {
  const [id] = useState(() => `why-${++ids}`);
  return html`<span title=${why || null}>
    <button type="button" data-action=${action} aria-describedby=${why ? id : null} ...${rest} disabled=${Boolean(why) || rest.disabled}>${children}</button>
    ${why && html`<span id=${id} class="visually-hidden">${why}</span>`}
  </span>`;
}

/** A dialog with the form of `schema`, which may depend on its value; submit(value) sends it. */
export function Ask({ title, schema, label = title, kind = "primary", check = () => "", state, submit, onClose, children }) {
  const planned = value => planForm({ type: "object", ...(schema instanceof Function ? schema(value ?? {}) : schema) });
  const [draft, set] = useState(() => draftOf(planned()));
  const field = planned(outcome(planned(), draft).value);
  const { value, problem = check(value) } = outcome(field, draft);
  const send = event => {
    event.preventDefault();
    if (!problem) submit(value);
  };
  return html`<${Dialog} title=${title} onClose=${onClose}><form onSubmit=${send}>
    ${children}
    <${Field} field=${field} draft=${draft} onDraft=${set} />
    <${Problem} problem=${state.problem} retry=${state.retry} />
    <p class="hint" role="status">${problem}</p>
    <div class="row end"><button type="button" onClick=${onClose}>Cancel</button><button class=${kind} data-action="confirm" disabled=${state.busy || problem}>${label}</button></div>
  </form><//>`;
}
