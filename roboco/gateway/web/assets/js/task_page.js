// task_page: a task: its header, lanes, conversation, controls and the inspector of a step.
//
//   wide: header / lanes / conversation and controls, beside them the inspector      narrow: tabs; the inspector is above all

import { html, useState } from "../vendor/preact.js";
import { Controls } from "./controls.js";
import { Conversation } from "./conversation.js";
import { Header, useLimits } from "./header.js";
import { Inspector } from "./inspector.js";
import { Banners, Integrity } from "./integrity.js";
import { Lanes } from "./lanes.js";
import { Replay } from "./replay.js";
import { Hostile, Problem } from "./ui.js";
import { useTask } from "./use_task.js";

const TABS = { conversation: "Conversation", timeline: "Timeline" };

export function TaskPage({ taskId, step, can }) {
  const { task: current, frames, version, connection, summary, check, problem, reload } = useTask(taskId);
  const [replayed, setReplayed] = useState(null);
  const [tab, setTab] = useState("conversation");
  const { limits, effects } = useLimits(taskId, current);
  const task = replayed ?? current;
  const ready = Boolean(replayed) || (summary != null && current.steps.length >= summary.steps);
  const select = seq => {
    const address = `#/tasks/${encodeURIComponent(taskId)}${seq == null ? "" : `/steps/${seq}`}`;
    if (step == null) location.hash = address;
    else location.replace(address);
  };
  const shared = { taskId, task, version };
  if (problem?.status === 404 && !summary) {
    return html`<main id="main" tabindex="-1" data-page="task">
      <div class="unknown"><h1>Unknown task</h1><${Problem} problem=${{ message: problem.message }} retry=${reload} /><p><a href="#/">All tasks</a></p></div>
    </main>`;
  }
  return html`<main id="main" tabindex="-1" data-page="task" class="task" data-tab=${tab} data-inspects=${step != null}>
    <${Header} taskId=${taskId} task=${task} summary=${summary} limits=${limits} />
    <div class="notes">
      <${Problem} problem=${problem} retry=${!summary && reload} />
      <${Banners} task=${current} check=${check} />
      ${current.errors.filter(error => error.code !== "events_lost").slice(-3).map(error => html`<p class="problem" data-error=${error.code}><${Hostile}>${error.message}</${Hostile}></p>`)}
    </div>
    <nav class="tabs" aria-label="Views">
      ${Object.entries(TABS).map(([name, text]) => html`<button type="button" class="quiet" aria-pressed=${tab === name} onClick=${() => setTab(name)}>${text}</button>`)}
    </nav>
    <div class="timeline">
      <${Lanes} ...${shared} selected=${step} onSelect=${select} />
      <${Replay} taskId=${taskId} frames=${frames} version=${version} onReplay=${setReplayed} />
    </div>
    <div class="talk">
      <${Conversation} ...${shared} selected=${step} onSelect=${select} can=${can} effects=${effects} ready=${ready} />
      ${!replayed && html`<${Controls} ...${shared} summary=${summary} selected=${step} can=${can} />`}
    </div>
    ${step != null && html`<${Inspector} ...${shared} frames=${frames} step=${step} onClose=${() => select(null)} />`}
    <${Integrity} task=${current} connection=${connection} check=${check} />
  </main>`;
}
