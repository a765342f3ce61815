// files: a file of a task: preview and download. Content is hostile: it is shown as an image or text, and never opened.

import { html, useEffect, useState } from "../vendor/preact.js";
import { requestBlob, taskPath } from "./api.js";
import { bytes } from "./format.js";
import { Hostile, Problem, useAction } from "./ui.js";

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const TEXT = /^text\/|^application\/(json|jsonl|xml|yaml|x-yaml|toml|javascript|sql)\b|^image\/svg|\+(json|xml)\b/;
const MOST_IMAGE = 8 << 20;
const MOST_TEXT = 64 << 10;
const HOLD = 10000; // milliseconds for which a download may read its blob

/** `file` is an artifact of a step or of GET files. */
export function File({ taskId, file }) {
  const name = (file.uri ?? "").replace(/^file:\/\/(\.\/)?artifacts\//, "");
  const type = (file.mime_type ?? "").split(";")[0].toLowerCase();
  const path = taskPath(taskId, "files", name);
  const [download, { busy, problem }] = useAction(async () => {
    const url = URL.createObjectURL(new Blob([await requestBlob(path)], { type: "application/octet-stream" }));
    const link = Object.assign(document.createElement("a"), { href: url, download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), HOLD);
  });
  return html`<figure class="card file" data-file=${name}>
    <header>
      <${Hostile} class="mono name">${name}</${Hostile}><span class="dim"><${Hostile}>${type}</${Hostile}> · ${bytes(file.size ?? 0)}</span>
      ${file.version > 1 && html`<span class="tag">version ${file.version}</span>`}
      <span class="grow"></span>
      <button type="button" class="quiet" data-action="download" disabled=${busy} onClick=${download}>Download</button>
    </header>
    <${Problem} problem=${problem} />
    ${IMAGES.has(type) && file.size <= MOST_IMAGE ? html`<${Image} path=${path} type=${type} name=${name} />` : TEXT.test(type) ? html`<${Text} path=${path} size=${file.size} />` : null}
  </figure>`;
}

/** An image, once its row has stayed for a moment. */
function Image({ path, type, name }) {
  const [url, setUrl] = useState("");
  const [load, { problem }] = useAction(async left => {
    const made = URL.createObjectURL(new Blob([await requestBlob(path)], { type }));
    if (left()) URL.revokeObjectURL(made);
    else setUrl(made);
  });
  useEffect(() => {
    let left = false;
    const timer = setTimeout(() => load(() => left), 250);
    return () => {
      left = true;
      clearTimeout(timer);
    };
  }, [path]);
  useEffect(() => () => url && URL.revokeObjectURL(url), [url]);
  return html`<div class="image"><${Problem} problem=${problem} />${url && html`<img src=${url} alt=${`The image ${name}`} />`}</div>`; // of one height: rows do not jump
}

/** The beginning of a text, once the reader asks for it. */
function Text({ path, size }) {
  const [text, setText] = useState(null);
  const [load, { problem }] = useAction(async () => {
    const part = await requestBlob(path, size > MOST_TEXT ? { Range: `bytes=0-${MOST_TEXT - 1}` } : {});
    setText(new TextDecoder().decode(await part.slice(0, MOST_TEXT).arrayBuffer()));
  });
  return html`<details class="value" onToggle=${event => event.target.open && text == null && load()}>
    <summary>Preview${size > MOST_TEXT ? ` of the first ${bytes(MOST_TEXT)}` : ""}</summary>
    <${Problem} problem=${problem} />
    ${text != null && html`<${Hostile} tag="pre" data-preview>${text}</${Hostile}>`}
  </details>`;
}
