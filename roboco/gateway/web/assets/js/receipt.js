// receipt: the receipts of the items that decisions became, read again until they are applied or expired.

import { html, useEffect, useState } from "../vendor/preact.js";
import { request, taskPath } from "./api.js";
import { duration, number } from "./format.js";
import { Hostile } from "./ui.js";

const FIRST_POLL = 150;
const MAX_POLL = 4000;
const SHOWN = 6;
const kept = new Map(); // task id ─► receipts of this page, the newest first

/** Return [receipts, add] of a task: add(label, receipt). */
export function useReceipts(taskId) {
  const [, changed] = useState();
  const receipts = kept.get(taskId) ?? [];
  const add = (label, receipt) => {
    const others = (kept.get(taskId) ?? []).filter(one => one.receipt.item_id !== receipt.item_id);
    kept.set(taskId, [{ label, receipt }, ...others].slice(0, SHOWN));
    changed({});
  };
  return [receipts, add];
}

/** Return the receipt of an item, read again until it is final; `given` is what is known already. */
export function useReceipt(taskId, itemId, given = null) {
  const [receipt, set] = useState(given);
  useEffect(() => {
    let delay = FIRST_POLL;
    let timer = 0;
    const read = async () => {
      try {
        const found = await request(taskPath(taskId, "receipts", itemId));
        set(found);
        if (isFinal(found)) return;
      } catch ({ status }) {
        if (status >= 400 && status < 429) return; // a stop of an ended task leaves no item
      }
      timer = setTimeout(read, (delay = Math.min(MAX_POLL, delay * 1.6)));
    };
    if (!isFinal(given)) timer = setTimeout(read, delay);
    return () => clearTimeout(timer);
  }, [taskId, itemId]);
  return receipt;
}

const isFinal = receipt => receipt && (receipt.expired || receipt.applied_at_seq !== null);
const EFFECTS = {
  reply_ended: "ended a reply",
  calls_closed: "closed open calls",
  turn_replaced: "replaced a turn without text",
  nothing_running: "nothing was running",
  already_waiting: "the task waited already",
};

/** Return the lines of a receipt: {text, after, open, seq}; `after` is the time since the line before. Pure. */
export function receiptLines(receipt, holds = false) {
  const { applied_at_seq: seq, chunks_after: chunks, effect } = receipt;
  let last = Date.parse(receipt.requested_at);
  const lines = [{ text: "requested", after: new Date(last).toLocaleTimeString("en-GB") }];
  for (const [text, time] of [["seen by the worker", receipt.seen_at], ["connection closed", receipt.closed_at]]) {
    if (!time) continue;
    const passed = Date.parse(time) - last;
    lines.push({ text, after: passed < 0 ? "clocks differ" : `+${duration(passed)}` });
    last += passed;
  }
  if (chunks != null) lines.push({ text: `${number(chunks)} ${chunks === 1 ? "chunk" : "chunks"} after the request` });
  if (receipt.expired) lines.push({ text: "expired: the task ended before it was applied" });
  else if (seq == null) lines.push({ text: holds ? "counts from now on" : "not applied yet", open: true });
  else lines.push(holds ? { text: `counted until step ${seq}` } : { text: `applied at step ${seq}`, seq });
  if (effect) lines.push({ text: EFFECTS[effect] ?? effect });
  return lines;
}

/** A receipt; it follows its item. */
export function Receipt({ taskId, label, receipt: given }) {
  const receipt = useReceipt(taskId, given.item_id, given);
  return html`<div class="receipt" data-receipt=${given.item_id}>
    <strong>${label}</strong>
    <ol>${receiptLines(receipt, ["Pause", "Step", "Resume"].includes(label)).map(({ text, after, open, seq }) => html`<li class=${open ? "open" : ""}>
      ${seq == null ? text : html`<a href=${`#/tasks/${encodeURIComponent(taskId)}/steps/${seq}`}>${text}</a>`} <span class="dim">${after}</span>
    </li>`)}</ol>
    <${Hostile} class="dim">${receipt.by}<//>
  </div>`;
}
