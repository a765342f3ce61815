// markdown: a safe subset of Markdown. Elements only wrap what a model wrote: their text is that text, character by
// character. The styles hide its marks, and show all of it under `.raw`. Nothing is markup but what this module makes.
//
//   line ─► [kind, pieces], alone but for fences      piece: text, or [tag, pieces, address]      <i> is a mark
//
// A line that has ended is parsed once, however its text grows. Each pattern passes a line once, so the work is linear.

import { Component, html } from "../vendor/preact.js";

const MOST = 10000; // elements of a text; the rest is plain
const LONG = 2000; // characters of a line that is plain
const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const BLOCKS = [ // kind, its mark, the rest of the line
  ["head", /^(#{1,6} +)(.*)/s],
  ["rule", /^( {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,}))$/],
  ["quote", /^( {0,3}> ?)(.*)/s],
  ["item", /^( *[-*+] +)(.*)/s],
];
const INLINE = /`([^`]+)`|\*\*(?!\s)([^*]+)(?<!\s)\*\*|\*(?!\s)([^*]+)(?<!\s)\*|(?:\[([^[\]]+)\]\()?(https?:\/\/[^\s()<>[\]"'`*|\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+)(?<![.,;:!?])(\))?/g;

/** Return the pieces of a part of a line. An address has no mark of direction, by which it would be read wrongly. */
export function piecesOf(text) {
  const pieces = [];
  let at = 0;
  for (const { 0: all, 1: code, 2: strong, 3: em, 4: name, 5: address, 6: close, index } of text.matchAll(INLINE)) {
    if (name && !close) continue;
    pieces.push(text.slice(at, index));
    const marked = (tag, inner, mark) => pieces.push(["i", [mark]], [tag, inner], ["i", [mark]]);
    if (code) marked("code", [code], "`");
    else if (strong) marked("strong", piecesOf(strong), "**");
    else if (em) marked("em", piecesOf(em), "*");
    else if (name) pieces.push(["i", ["["]], ["a", [name], address], ["i", ["]"]], ["small", [`(${address})`]]);
    else pieces.push(["a", [address], address], close);
    at = index + all.length;
  }
  return [...pieces, text.slice(at)].filter(Boolean);
}

/** Return [kind, pieces, fence] of a line; `fence` is the mark of the code in which the next line is. */
export function lineOf(line, fence = "") {
  if (line.length > LONG) return [fence && "pre", [line], fence];
  const text = line.replace(/\r?\n$/, "");
  const end = line.slice(text.length);
  const [, mark = "", info] = FENCE.exec(text) ?? [];
  if (fence) return mark.startsWith(fence) && !info.trim() ? ["fence", [line], ""] : ["pre", [line], fence];
  if (mark) return ["fence", [line], mark];
  if (/^\|.*\|\s*$/.test(text)) {
    if (/^[|\s:-]+$/.test(text)) return ["bar", [line], ""];
    return ["cells", [...text.split(/(\|)/).filter(Boolean).map(one => (one === "|" ? ["i", [one]] : ["span", piecesOf(one)])), ["i", [end]]], ""];
  }
  for (const [kind, pattern] of BLOCKS) {
    const [, sign, rest = ""] = pattern.exec(text) ?? [];
    if (sign) return [kind, [["i", [sign]], ...piecesOf(rest), end], ""];
  }
  return ["", [...piecesOf(text), end], ""];
}

function nodeOf(piece) {
  if (typeof piece === "string") return piece;
  const [tag, pieces, href] = piece;
  const made = document.createElement(tag);
  made.append(...pieces.map(nodeOf));
  return href ? Object.assign(made, { href, target: "_blank", rel: "noreferrer" }) : made;
}

export class Markdown extends Component {
  shouldComponentUpdate({ text }) {
    this.draw(text);
    return false;
  }

  componentDidMount = () => this.draw(this.props.text);

  /** Each line has a direction, but not all together: it would be computed again with each line. Draw the lines that are new. The last one may go on: it is drawn again. */
  draw(text) {
    if (!this.done || !text.startsWith(this.done)) {
      this.view.replaceChildren();
      Object.assign(this, { done: "", fence: "", left: MOST, last: null });
    }
    this.last?.remove();
    let at = this.done.length;
    for (let end; this.left > 0 && (end = text.indexOf("\n", at) + 1) > 0; at = end) this.fence = this.add(text.slice(at, end));
    const { left } = this;
    this.add(text.slice(at));
    Object.assign(this, { done: text.slice(0, at), left, last: this.view.lastChild });
  }

  add(text) {
    const [kind, pieces, fence] = this.left > 0 ? lineOf(text, this.fence) : ["", [text], ""];
    const line = Object.assign(nodeOf(["div", pieces]), { className: kind, dir: "auto" });
    if (kind === "item") line.style.marginInlineStart = `${Math.min(8, text.search(/\S/)) + 2}ch`;
    this.view.append(line);
    this.left -= line.getElementsByTagName("*").length + 1;
    return fence;
  }

  render = () => html`<div class="text md" data-text ref=${view => (this.view = view)} />`;
}
