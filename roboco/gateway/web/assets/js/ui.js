// ui: the parts that all pages share. Text of models, tools and users is in a <bdi>, or has dir="auto": its direction does not leak.

import { html, useCallback, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { age, statusName } from "./format.js";

export const Status = ({ value }) => html`<span class="status ${value}" data-status=${value}>${statusName(value)}<//>`;
export const Banner = ({ kind, children }) => html`<div class="banner" data-banner=${kind} role="status">${children}<//>`;
export const Problem = ({ problem, retry }) => problem && html`<div class="problem" role="alert">
  <strong dir="auto">${problem.message}<//> <bdi>${problem.remedy && `· ${problem.remedy}`}<//> ${retry && html`<button type="button" onClick=${retry}>Try again<//>`}
<//>`;

export const addressOf = (taskId, seq) => `#/tasks/${encodeURIComponent(taskId)}${seq == null ? "" : `/steps/${seq}`}`;

export const coloured = ({ hues }, name, other = "") =>
  hues.has(name) ? { class: `agent ${other}`, style: { "--hue": hues.get(name) } } : { class: other };

export function Age({ at }) {
  const now = useClock(5000);
  return at > 0 && html`<time title=${new Date(at).toLocaleString()}>${age(at, now)}<//>`;
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

const settled = async (action, ...args) => {
  try {
    return { data: await action(...args), problem: null };
  } catch (problem) {
    return { problem };
  }
};

/** Return [run, {busy, problem, result}]. A second click while the action runs has no effect. */
export function useAction(action) {
  const [state, setState] = useState({});
  const held = useRef();
  const run = async (...args) => {
    if (held.current) return;
    setState((held.current = { busy: true }));
    const { data: result, problem } = await settled(action, ...args);
    setState({ result, problem });
    held.current = null;
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
    const found = await settled(read);
    if (turn !== held.turn) return;
    setState(before => ({ ...before, ...found }));
    const { status } = found.problem ?? {};
    if (interval || status === 0 || status >= 429) held.timer = setTimeout(reload, interval || 3000);
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
  return html`<dialog ref=${element} aria-label=${title} onClose=${onClose}><h2>${title}<//>${children}<//>`;
}

/** Return [version, changed]: at most one render for each frame. */
export function useFrame() {
  const [version, setVersion] = useState(0);
  const asked = useRef();
  return [version, useCallback(() => {
    asked.current ||= requestAnimationFrame(() => setVersion((asked.current = 0) || (before => before + 1)));
  }, [])];
}
