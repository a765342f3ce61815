// main: the shell of the page: sign-in, navigation, and the page that the address names.
//
//   #/?FILTERS list    #/tasks/ID task    #/tasks/ID/steps/17 task at a step    #/operations    #/operations/NAME?VALUES one of them

import { html, render, useEffect, useState } from "../vendor/preact.js";
import { post, request } from "./api.js";
import { ListPage } from "./pages.js";
import { TaskPage } from "./task_page.js";
import { Problem, useAction, useLoad } from "./ui.js";

const tabs = new BroadcastChannel("roboco");
tabs.onmessage = () => location.reload(); // another tab has signed in or out
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
  if (!me) return html`<main><${Problem} problem=${problem} retry=${reload} /></main>`;
  const can = scope => me.scopes.includes(scope);
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const [page, taskId, , step] = path.split("/").map(name => new URLSearchParams(`_=${name}`).get("_")); // decoded, and never an error
  const link = (text, to) => html` <a href="#/${to}" aria-current=${page === to ? "page" : null}>${text}</a>`;
  return html`
    <header class="top">
      <a class="brand" href="#/">${LOGO}</a>
      <nav class="grow" aria-label="Pages">${link("Tasks", "")}${can("operate") && link("Operations", "operations")}</nav>
      <span class="hint">${me.tenant && `${me.tenant} · `}${me.by}</span>
      ${me.by !== "local" && html`<button class="quiet" onClick=${() => change("sign-out")}>Sign out</button>`}
      <${Problem} problem=${state.problem} />
    </header>
    ${page === "tasks" && taskId ? html`<${TaskPage} key=${taskId} taskId=${taskId} step=${/^\d{1,9}$/.test(step) ? Number(step) : null} can=${can} />`
      : page === "operations" ? html`<${Operations} can=${can} action=${taskId} query=${new URLSearchParams(query)} />`
      : html`<${ListPage} me=${me} can=${can} query=${new URLSearchParams(query)} />`}`;
}

/** The operations page: its script is loaded when it is opened. */
function Operations(properties) {
  const { data, problem, reload } = useLoad(() => import("./operations.js"), []);
  return data ? html`<${data.OperationsPage} ...${properties} />` : html`<main><${Problem} problem=${problem} retry=${reload} /></main>`;
}

function SignIn({ onKey, busy, problem }) {
  const submit = event => [event.preventDefault(), onKey(event.target.key.value.trim())];
  return html`<main data-page="sign-in" class="sign-in">
    <h1 class="brand">${LOGO}</h1>
    <form onSubmit=${submit}>
      <label>Key <input name="key" type="password" autocomplete="current-password" required autofocus placeholder="rbk_…" /></label>
      <p class="hint">An operator creates keys with <code>roboco keys create</code>. The page gets a cookie that scripts cannot read.</p>
      <button class="primary" disabled=${busy}>Sign in</button>
    </form>
    <${Problem} problem=${problem} />
  </main>`;
}

render(html`<${App} />`, document.getElementById("app"));
