// ui: the parts that all pages share.

import { html, useCallback, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { age, statusName } from "./format.js";

export const Status = ({ value }) => html`<span class="status ${value}" data-status=${value}>${statusName(value)}</span>`;

/** Return the properties of an element in the colour of an agent. */
export const coloured = (task, name, other = "") =>
  task.hues.has(name) ? { class: `agent ${other}`, style: { "--hue": task.hues.get(name) } } : { class: other };

export function Age({ at }) {
  const now = useClock(5000);
  return at ? html`<time datetime=${new Date(at).toISOString()} title=${new Date(at).toLocaleString()}>${age(at, now)}</time>` : null;
}

/** Return the present, renewed each `interval` milliseconds; 0 stops it. */
export function useClock(interval) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = interval && setInterval(() => document.hidden || setNow(Date.now()), interval);
    return () => clearInterval(timer);
  }, [interval]);
  return now;
}

export const Problem = ({ problem, retry }) => problem && html`<div class="problem" role="alert">
  <${Hostile} tag="strong">${problem.message}<//> <${Hostile}>${problem.remedy}<//> ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
</div>`;

export const Banner = ({ kind, children }) => html`<div class="banner" data-banner=${kind} role="status">${children}</div>`;

/** Text of models, tools and users: text alone, and its direction does not leak. */
export const Hostile = ({ children, tag = "span", ...rest }) => html`<${tag} dir="auto" ...${rest} class="hostile ${rest.class ?? ""}">${children}<//>`;

/** Return [run, {busy, problem, result}]. A second click while the action runs has no effect. */
export function useAction(action) {
  const [state, setState] = useState({});
  const busy = useRef(false);
  const run = async (...args) => {
    if (busy.current) return;
    busy.current = true;
    setState({ busy: true });
    setState(await (async () => action(...args))().then(result => ({ result }), problem => ({ problem })));
    busy.current = false;
  };
  return [run, state];
}

/** Return {data, problem, reload} of what is read for each value of `inputs`, and again after `interval` or an outage. */
export function useLoad(read, inputs, interval = 0) {
  const [state, setState] = useState({});
  const held = useRef({}).current;
  const reload = useCallback(async () => {
    const turn = (held.turn = {});
    clearTimeout(held.timer);
    const found = await (async () => read())().then(data => ({ data, problem: null }), problem => ({ problem }));
    if (turn !== held.turn) return;
    setState(before => ({ ...before, ...found }));
    const fails = found.problem?.status === 0 || found.problem?.status >= 429;
    if (fails || interval) held.timer = setTimeout(reload, interval || 3000);
  }, inputs);
  useEffect(() => {
    setState({});
    reload();
    return () => {
      held.turn = null;
      clearTimeout(held.timer);
    };
  }, inputs);
  return { ...state, reload };
}

export function Dialog({ title, onClose, children }) {
  const element = useRef();
  useLayoutEffect(() => element.current.showModal(), []);
  return html`<dialog ref=${element} aria-label=${title} onClose=${onClose}><h2>${title}</h2>${children}</dialog>`;
}

/** Return [version, changed]: render at most once for each frame of the screen. */
export function useFrame() {
  const [version, setVersion] = useState(0);
  const asked = useRef(0);
  const changed = useCallback(() => {
    asked.current ||= requestAnimationFrame(() => {
      asked.current = 0;
      setVersion(before => before + 1);
    });
  }, []);
  return [version, changed];
}
