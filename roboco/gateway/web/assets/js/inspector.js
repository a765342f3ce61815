// inspector: the explanation of a step: what the gateway answers, as facts, and the digests of the history.

import { html, useState } from "../vendor/preact.js";
import { request, requestText, taskPath } from "./api.js";
import { escaped, json, money, number } from "./format.js";
import { Problem, useLoad } from "./ui.js";

export function Inspector({ taskId, task, step: seq, onClose }) {
  const [tab, setTab] = useState("Why");
  const step = task.steps[seq];
  const names = Object.keys(TABS);
  const pressed = ({ key, currentTarget }) => {
    const to = (names.indexOf(tab) + ({ ArrowRight: 1, ArrowLeft: names.length - 1 }[key] ?? 0)) % names.length;
    setTab(names[to]);
    currentTarget.children[to].focus();
  };
  const read = () => (step ? TABS[tab]({ taskId, seq, step }) : "The history has no such step yet.");
  return html`<aside data-inspector=${seq} aria-label="Inspector">
    <header class="row"><h2 class="grow">Step ${seq}<//><button class="quiet" aria-label="Close the inspector" onClick=${onClose}>✕<//><//>
    <div role="tablist" onKeyDown=${pressed}>${names.map(name => html`
      <button role="tab" aria-selected=${name === tab} tabindex=${name === tab ? 0 : -1} onClick=${() => setTab(name)}>${name}<//>`)}<//>
    <div role="tabpanel" aria-label=${tab} tabindex="0"><${Panel} key=${[tab, seq, !step]} read=${read} /><//>
  <//>`;
}

function Panel({ read }) {
  const { data, problem, reload } = useLoad(read, []);
  return data ?? (problem ? html`<${Problem} problem=${problem} retry=${reload} />` : "reading …");
}

/** JSON: a record as facts, an array as a list, arguments as they are. */
function Value({ of, name }) {
  if (Object(of) !== of) return html`<bdi>${typeof of === "number" ? (/cost/.test(name) ? money : number)(of) : String(of)}<//>`;
  if (name === "args") return html`<pre dir="auto">${json(of)}<//>`;
  const known = Object.entries(of).filter(([name, value]) => value != null && value !== "" && !(value === 0 && /cost/.test(name)));
  const value = ([name, of]) => html`<${Value} name=${name} of=${of} />`;
  if (!known.length) return "none";
  if (Array.isArray(of)) return html`<ul>${known.map(one => html`<li>${value(one)}<//>`)}<//>`;
  return html`<dl>${known.map(one => html`<dt><bdi>${one[0].replaceAll("_", " ")}<//><//><dd>${value(one)}<//>`)}<//>`;
}

export const facts = (of, name) => html`<${Value} of=${of} name=${name} />`;

const TABS = {
  async Why({ taskId, seq }) {
    const { steps: [step], end } = await request(`${taskPath(taskId, "why")}?step=${seq}`);
    return facts({ why: step.why, ...step, now: end });
  },
  async Context({ taskId, seq, step }) {
    if (!step.metadata.context?.tokens) return "No model has written this step: it had no prompt.";
    const report = await requestText(`${taskPath(taskId, "context")}?step=${seq}`);
    const { context, changes } = JSON.parse(report, (_, one) => (Number.isInteger(one?.[0]) ? [...new Set(one)].join("–") : one)); // ranges of steps
    return facts({ ...context, "since the turn of this agent before": changes ?? "it is the first" });
  },
  async Usage({ taskId, step }) {
    const { context, routing, ...own } = step.metadata;
    return facts({ "this step": own, ...(await request(taskPath(taskId, "usage"))) });
  },
  async Raw({ taskId, seq }) {
    const [line] = linesOf(await requestText(`${taskPath(taskId, "history")}?start=${seq}&limit=1`));
    return html`<pre dir="auto">${json(indent(line), 100000)}<//>`;
  },
  async Digest({ taskId, seq, step }) {
    const { digests, wrong } = await verifyHistory(taskId);
    return html`<p role="status" class=${wrong ? "failed" : "completed"} data-chain=${wrong ? "broken" : "intact"}>${wrong ? `Step ${wrong.seq} is wrong: ${wrong.why}. The steps before it are intact.`
      : `${number(digests.length)} steps, each intact and following the one before.`}<//>
      ${facts({ shown: step.digest, computed: digests[seq], "step before": step.prev_digest })}`;
  },
};

/** Return the stored lines of the steps of a page of `/history`. A parser of JSON would change 1.0, and so a digest. */
const linesOf = page => page.split(/,?\n/).slice(1, -1);
const STEP = /^(.*?)"digest":"(\w*)",(.*"prev_digest":"(\w*)","seq":(\d+),"step_id":"[^"]*"})$/s;

async function sha256(text) {
  if (!crypto.subtle) throw new Error("Digests are verified over HTTPS or on loopback.");
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(bytes), byte => byte.toString(16).padStart(2, "0")).join("");
}

/** Return {digests, wrong} of the history; the first wrong step is {seq, why}. A digest is that of the step without it. */
export async function verifyHistory(taskId, read = requestText) {
  const digests = [];
  for (let next = 0; next !== null; ) {
    const page = await read(`${taskPath(taskId, "history")}?start=${next}&limit=200`);
    for (const line of linesOf(page)) {
      const [seq, last = ""] = [digests.length, digests.at(-1)];
      const [, head, digest, rest, before, at] = STEP.exec(line) ?? [];
      const why = at !== String(seq) || before !== last ? "it does not follow the step before"
        : digest !== (await sha256(`${before}\n${head}${rest}`)) ? "it was changed, or its digest" : "";
      if (why) return { digests, wrong: { seq, why } };
      digests.push(digest);
    }
    ({ next } = JSON.parse(page));
  }
  return { digests, wrong: null };
}

/** Return JSON with indentation and the same numbers, escaped. */
export function indent(text) {
  let depth = 0;
  const line = by => `\n${"  ".repeat((depth += by))}`;
  return escaped(text)
    .replace(/"[^"\\]*(?:\\.[^"\\]*)*"|([[{](?![\]}]))|([\]}])(?<![[{].)|,/g, (sign, opens, closes) => (opens ? sign + line(1) : closes ? line(-1) + sign : sign === "," ? sign + line(0) : sign));
}
