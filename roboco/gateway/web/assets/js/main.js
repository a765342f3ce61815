// main: the shell of the page: sign-in, navigation, and the page that the address names.
//
//   #/?FILTERS list    #/tasks/ID task    #/tasks/ID/steps/17 task at a step    #/operations    #/operations/NAME?VALUES one of them

import { html, render, useEffect, useState } from "../vendor/preact.js";
import { post, request } from "./api.js";
import { OperationsPage } from "./operations.js";
import { ListPage } from "./pages.js";
import { TaskPage } from "./task_page.js";
import { Problem, useAction, useLoad } from "./ui.js";

const tabs = new BroadcastChannel("roboco");
const LOGO = html`<img src="ui/icon.svg" alt="" /> Roboco`;

function App() {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => addEventListener("hashchange", () => setHash(location.hash)), []);
  const { data: me, problem, reload } = useLoad(() => request("v1/me"), []);
  const [change, state] = useAction(async (action, body) => {
    await post(`v1/${action}`, body);
    tabs.postMessage("");
    location.reload();
  });
  if (problem?.status === 401) return html`<${SignIn} onKey=${key => change("sign-in", { key })} ...${state} />`;
  if (!me) return html`<main><${Problem} problem=${problem} retry=${reload} /><//>`;
  const can = scope => me.scopes.includes(scope);
  const [path, values] = hash.replace(/^#\/?/, "").split("?");
  const query = new URLSearchParams(values);
  const [page, taskId, , step] = path.split("/").map(name => new URLSearchParams(`_=${name}`).get("_")); // decoded, and never an error
  const link = (text, to) => html` <a href="#/${to}" aria-current=${page === to ? "page" : null}>${text}<//>`;
  return html`
    <header class="top">
      <a class="brand" href="#/">${LOGO}<//>
      <nav class="grow" aria-label="Pages">${link("Tasks", "")}${can("operate") && link("Operations", "operations")}<//>
      <span class="hint">${me.tenant && `${me.tenant} · `}${me.by}<//>
      ${me.by !== "local" && html`<button class="quiet" onClick=${() => change("sign-out")}>Sign out<//>`}
      <${Problem} problem=${state.problem} />
    <//>
    ${page === "tasks" && taskId ? html`<${TaskPage} key=${taskId} taskId=${taskId} step=${/^\d{1,9}$/.test(step) ? Number(step) : step} can=${can} />`
      : page === "operations" ? html`<${OperationsPage} can=${can} action=${taskId} query=${query} />`
      : html`<${ListPage} me=${me} can=${can} query=${query} />`}`;
}

function SignIn({ onKey, busy, problem }) {
  const submit = event => [event.preventDefault(), onKey(event.target.key.value.trim())];
  return html`<main data-page="sign-in" class="sign-in">
    <h1 class="brand">${LOGO}<//>
    <form onSubmit=${submit}>
      <label>Key <input name="key" type="password" autocomplete="current-password" required autofocus placeholder="rbk_…" /><//>
      <p class="hint">An operator creates keys with <code>roboco keys create<//>.<//>
      <button class="primary" disabled=${busy}>Sign in<//>
    <//>
    <${Problem} problem=${problem?.status === 401 ? { message: "The gateway has no such key, or it has expired or was revoked.", remedy: "copy all of it, or ask for a new one" } : problem} />
  <//>`;
}

if (globalThis.document) { // else this is the SharedWorker
  onclick = event => (document.hash = event.target.closest("a")?.hash); // a read runs at once after a click here
  tabs.onmessage = () => location.reload(); // another tab has signed in or out
  const draw = ({ type }) => {
    document.body.className = type ?? ""; // paper has all steps
    render(html`<${App} />`, document.getElementById("app"));
  };
  onbeforeprint = draw;
  onafterprint = () => draw({});
  draw({});
}
