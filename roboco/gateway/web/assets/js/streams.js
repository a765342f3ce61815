// streams: tasks and the task list, live. All tabs share them, since a browser opens only six connections to a host.
//
//   tab ─► follow ─► Hub: a feed for each task ─► Stream of at most 20 feeds ─► GET v1/events, each after its place
//   frame ─► its feed, which keeps it for further tabs ─► one message for each tab and interval, with all new frames
//
// This file is the SharedWorker of the hub, too. A page whose browser has none holds a hub of its own.

import { ApiProblem, request, send, taskPath } from "./api.js";

const KINDS = { // connections, frames kept for further tabs, milliseconds between two messages
  task: { most: 1, kept: Infinity, interval: 16 },
  latest: { most: 3, kept: 40, interval: 200 },
  list: { most: 1, kept: 0, interval: 100 },
};
const MOST_FEEDS = 20;
const DEAD_AFTER = 45000; // milliseconds, after which a connection is taken for dead
const ANEW = "the feeds have changed";

class Stream {
  feeds = new Map(); // task id, "" for the list ─► feed
  failures = 0;

  constructor(kind) {
    Object.assign(this, KINDS[kind], { kind });
  }

  open = () => [...this.feeds.values()].filter(feed => feed.state !== "ended" && feed.state !== "refused");

  async run() {
    if (this.abort) return this.abort.abort(ANEW);
    for (;;) {
      this.abort = new AbortController();
      const delay = this.failures ? Math.min(8000, 250 * 2 ** this.failures) * (0.5 + Math.random()) : 20; // changes of a moment are one
      await new Promise(done => setTimeout(done, delay));
      if (!this.open().length) return (this.abort = null);
      this.abort = new AbortController();
      await this.connect(this.abort).catch(problem => this.fail(problem));
      this.abort.abort(ANEW);
    }
  }

  async connect(abort) {
    const answer = await send(this.address(), { headers: { Accept: "application/x-ndjson" }, signal: abort.signal });
    if (answer.status === 204) return this.tell({ state: "ended" });
    const [reader, decoder] = [answer.body.getReader(), new TextDecoder()];
    for (let rest = ""; ; ) {
      const silence = setTimeout(() => abort.abort("silent"), DEAD_AFTER);
      const { value, done } = await reader.read().finally(() => clearTimeout(silence));
      if (done) throw new Error("cut");
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop();
      for (const line of lines) if (line && this.take(JSON.parse(line))) return undefined;
    }
  }

  async fail(problem) {
    if (this.abort.signal.reason === ANEW) return;
    this.failures += 1;
    this.tell({ state: "lost" });
    for (const feed of isFinal(problem) ? this.open() : []) {
      const { status, message, remedy } = feed.id ? await request(taskPath(feed.id)).catch(own => own) : problem;
      if (!isFinal({ status })) continue;
      this.change(Object.assign(feed, { state: "refused", problem: { status, message, remedy } }));
    }
  }

  address() {
    const feeds = this.open();
    if (this.kind === "list") return `v1/events?list=1&after=${feeds[0].place}`;
    const begin = this.kind === "latest" ? "running" : "first";
    return `v1/events?${new URLSearchParams({ tasks: feeds.map(feed => feed.id), after: feeds.map(feed => feed.place), begin })}`;
  }

  /** Return true after the last frame. */
  take({ type, id, data }) {
    if (type === "ping") return false;
    if (type === "stream_open") {
      this.failures = 0;
      for (const feed of this.open()) this.change(Object.assign(feed, { state: "live", connections: feed.connections + 1 }));
      return false;
    }
    if (type === "stream_end") {
      if (data.reason === "error") throw new ApiProblem(503, data);
      if (data.reason === "task_end") this.tell({ state: "ended" });
      return true;
    }
    const isList = this.kind === "list";
    const feed = this.feeds.get(isList ? "" : data.task_id);
    const frame = isList ? { type, place: id, data } : { type, place: data.place, data: data.data };
    this.change(feed);
    if (type === "task_error") {
      feed.problem = { status: 500, message: frame.data.detail, remedy: frame.data.remedy };
      return false;
    }
    feed.problem = null;
    feed.place = frame.place ?? feed.place;
    feed.unsent.push(frame);
    feed.frames.push(frame);
    if (feed.frames.length > this.kept) feed.frames.shift();
    feed.state = type === "event_task_end" ? "ended" : "live";
    return false;
  }

  tell(changes) {
    for (const feed of this.open()) this.change(Object.assign(feed, changes));
  }

  change(feed) {
    feed.changed = true;
    this.timer ??= setTimeout(() => this.flush(), this.interval);
  }

  flush() {
    clearTimeout(this.timer);
    this.timer = null;
    const posts = new Map();
    for (const feed of this.feeds.values()) {
      if (!feed.changed) continue;
      const message = messageOf(feed, feed.unsent);
      for (const tab of feed.tabs) posts.set(tab, [...(posts.get(tab) ?? []), message]);
      Object.assign(feed, { changed: false, unsent: [] });
    }
    posts.forEach((messages, tab) => tab.postMessage(messages));
  }
}

const messageOf = ({ name, state, connections, problem }, frames) => ({ feed: name, frames, state, connections, problem });
const isFinal = ({ status }) => [400, 401, 403, 404, 422].includes(status);

/** A message of a tab, which is a port, names a method and a feed: its kind and the id of its task. */
class Hub {
  streams = new Set();

  follow(tab, name) {
    const [kind, id] = name.split(" ");
    const streams = [...this.streams].filter(one => one.kind === kind);
    let stream = streams.find(one => one.feeds.has(id)) ?? streams.find(one => one.feeds.size < MOST_FEEDS);
    if (!stream && streams.length === KINDS[kind].most) {
      const problem = { message: `this browser follows ${streams.length * MOST_FEEDS} tasks already`, remedy: "close other pages" };
      return tab.postMessage([{ feed: name, frames: [], state: "refused", connections: 0, problem }]);
    }
    if (!stream) this.streams.add((stream = new Stream(kind)));
    stream.flush(); // the tab gets all frames, and none of them twice
    let feed = stream.feeds.get(id);
    if (!feed) {
      feed = { name, id, frames: [], unsent: [], tabs: new Set(), place: "", state: "connecting", connections: 0 };
      stream.feeds.set(id, feed);
      stream.run();
    }
    feed.tabs.add(tab);
    tab.postMessage([{ ...messageOf(feed, feed.frames), all: true }]);
  }

  *feeds(name) {
    for (const stream of this.streams) for (const feed of stream.feeds.values()) if (!name || feed.name === name) yield [stream, feed];
  }

  leave(tab, name) {
    for (const [stream, feed] of this.feeds(name)) {
      if (!feed.tabs.delete(tab) || feed.tabs.size) continue;
      stream.feeds.delete(feed.id);
      stream.run();
      if (!stream.feeds.size) this.streams.delete(stream);
    }
  }
}

if (globalThis.SharedWorkerGlobalScope) {
  const hub = new Hub();
  globalThis.onconnect = ({ ports: [port] }) => {
    port.onmessage = ({ data: [method, feed] }) => hub[method](port, feed);
    port.onclose = () => hub.leave(port); // of a tab that crashed
  };
}

const followers = new Map(); // name of a feed ─► callback
let hub;

/** Follow a "task", its "latest" text, or the "list" with the id "". With `all`, frames are those from the beginning. */
export function follow(kind, id, callback) {
  const feed = `${kind} ${id}`;
  followers.set(feed, callback);
  tell("follow", feed);
  return () => {
    followers.delete(feed);
    tell("leave", feed);
  };
}

function tell(...message) {
  hub ??= shareHub();
  hub.postMessage(message);
}

const receive = messages => messages.forEach(message => followers.get(message.feed)?.(message));

function shareHub() {
  addEventListener("pagehide", () => tell("leave"));
  addEventListener("pageshow", event => event.persisted && location.reload());
  if (!globalThis.SharedWorker) return ownHub();
  const worker = new SharedWorker(import.meta.url, { type: "module", name: "roboco" });
  worker.port.onmessage = ({ data }) => receive(data);
  worker.onerror = () => {
    worker.onerror = null;
    hub = ownHub();
    for (const feed of followers.keys()) tell("follow", feed);
  };
  return worker.port;
}

function ownHub() {
  const own = new Hub();
  const tab = { postMessage: receive };
  return { postMessage: ([method, feed]) => own[method](tab, feed) };
}
