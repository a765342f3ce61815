// virtual_list: a list of which only the rows near the visible part exist. Rows have any height, and may change it.
//
//   rows ─► measured ─► padding in place of all others; the first visible row stays where it is, or the end

import { Component, html } from "../vendor/preact.js";
import { firstIndex } from "./lanes_layout.js";

const MARGIN = 900; // pixels around the visible part that have rows
const MOST_PRINTED = 1000; // rows on paper
const GUESS = 90; // height of a row that was never shown

/** Props: count, and row(index) ─► vnode with a key and data-index. */
export class VirtualList extends Component {
  heights = [];
  starts = [0];
  top = 0;
  index = 0; // of the first visible row
  hidden = 0; // pixels of it
  atEnd = true;

  componentDidMount() {
    const observer = new ResizeObserver(this.place);
    observer.observe(this.view);
    observer.observe(this.view.firstChild);
  }

  componentDidUpdate = () => this.place();

  rowAt = index => this.view.querySelector(`[data-index="${index}"]`);
  indexAt = y => Math.max(0, Math.min(firstIndex(this.starts, start => start > y), this.props.count) - 1);

  /** While not all rows are there, the last one is not the end. */
  show(index, all = true) {
    const row = this.rowAt(index);
    if (row) {
      row.scrollIntoView({ block: "nearest" });
      this.keep();
    } else Object.assign(this, { index, hidden: -40 });
    this.atEnd = all && index === this.props.count - 1;
    this.place();
  }

  keep() {
    this.top = this.view.scrollTop;
    this.index = this.indexAt(this.top);
    this.hidden = this.top - this.starts[this.index];
  }

  place = () => {
    const { view, heights, starts, top, props: { count } } = this;
    if (!view?.clientHeight) return;
    const { scrollTop, scrollHeight, clientHeight } = view;
    if (Math.abs(scrollTop - top) >= 1) { // the reader has scrolled
      this.atEnd = scrollTop + clientHeight > scrollHeight - 4 || (this.atEnd && scrollTop > top);
      this.keep();
    }
    let known = Math.min(count, starts.length - 1); // rows above have the height that they had
    for (const row of view.firstChild.children) {
      const [index, { height }] = [Number(row.dataset.index), row.getBoundingClientRect()];
      if (heights[index] !== height) known = Math.min(known, index);
      heights[index] = height;
    }
    starts.length = known + 1;
    for (let index = known; index < count; index++) starts.push(starts[index] + (heights[index] ??= GUESS));
    const wanted = this.atEnd ? starts[count] : starts[Math.min(this.index, count)] + this.hidden;
    if (Math.abs(wanted - scrollTop) >= 1) view.scrollTop = wanted;
    this.top = view.scrollTop;
    if (this.atEnd) this.keep();
    if (view.querySelector("dialog[open]")) return; // its row stays
    const first = this.indexAt(this.top - MARGIN);
    const end = Math.min(count, this.indexAt(this.top + clientHeight + MARGIN) + 1);
    const state = { first, end, atEnd: this.atEnd, paddingTop: starts[first], paddingBottom: starts[count] - starts[end] };
    if (Object.keys(state).some(name => state[name] !== this.state[name])) this.setState(state);
  };

  render({ count, row }, { first, end, atEnd = true, ...style }) {
    const rows = [];
    const isPrinted = document.body.className;
    if (isPrinted) [first, end, atEnd, style] = [0, MOST_PRINTED, true, {}];
    for (let index = first; index < Math.min(end, count); index++) rows.push(row(index));
    return html`<div class="view" ref=${view => (this.view = view)} onScroll=${this.place} tabindex="0" role="region" aria-label="Steps"><div style=${style}>${rows}<//><//>
      ${!atEnd && html`<button class="middle" onClick=${() => this.show(count - 1)}>↓ To the end<//>`}`;
  }
}
