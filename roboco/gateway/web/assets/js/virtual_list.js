// virtual_list: a list of which only the rows near the visible part exist. Rows have any height, and may change it.
//
//   estimate ─► a row comes near ─► rendered ─► measured ─► offsets ─► the anchor stays where the reader sees it
//   reader at the end: the list follows the end      else: the anchor is the first visible row

import { Component, html } from "../vendor/preact.js";

const NEAR = 300; // pixels around the visible part that must have rows
const MARGIN = 900; // pixels around it that get rows
const CLOSE = 4; // pixels from the end at which a reader is at the end

/** Props: count, row(index) ─► keyed vnode with one element, estimate(index) ─► pixels, label, onFollow(following). */
export class VirtualList extends Component {
  heights = [];
  offsets = [0];
  clean = 0; // offsets are valid up to this index
  following = true;
  anchor = { index: 0, delta: 0 };
  top = 0;
  state = { first: 0, last: -1 };
  seen = new Set();

  componentDidMount() {
    this.observer = new ResizeObserver(entries => this.measure(entries));
    this.observer.observe(this.view);
    this.place();
    this.watchRows();
  }

  componentWillUnmount() {
    this.observer.disconnect();
  }

  componentDidUpdate() {
    this.place();
    this.watchRows();
  }

  /** Show a row, with `above` pixels above it. */
  show(index, above = 8) {
    this.top = this.view.scrollTop;
    this.follow(false);
    this.anchor = { index, delta: -above };
    this.place();
    this.follow(index === this.props.count - 1 && this.isAtEnd());
  }

  /** Show the end, and follow it. */
  showEnd() {
    this.top = this.view.scrollTop;
    this.follow(true);
    this.place();
  }

  /** Return true if all of a row is visible, or as much as the view can show. */
  isVisible(index) {
    const top = this.offset(index) - this.view.scrollTop;
    return top >= -1 && top + Math.min(this.heights[index], this.view.clientHeight / 2) <= this.view.clientHeight + 1;
  }

  isAtEnd = () => this.view.scrollTop >= this.view.scrollHeight - this.view.clientHeight - CLOSE;

  follow(following) {
    if (following === this.following) return;
    this.following = following;
    this.props.onFollow?.(following);
  }

  /** Return the offset of a row from the beginning. */
  offset(index) {
    const { heights, offsets } = this;
    while (heights.length < this.props.count) heights.push(this.props.estimate(heights.length));
    for (; this.clean < index; this.clean += 1) offsets[this.clean + 1] = offsets[this.clean] + heights[this.clean];
    return offsets[index];
  }

  indexAt(offset) {
    let [low, high] = [0, Math.max(0, this.props.count - 1)];
    this.offset(high);
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.offsets[middle] <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  measure(entries) {
    const shown = this.view.clientHeight;
    for (const { target, borderBoxSize } of entries) {
      if (target === this.view || !shown || !target.isConnected) continue;
      const index = Number(target.dataset.index);
      const height = borderBoxSize[0].blockSize;
      if (Math.abs(this.heights[index] - height) < 0.1) continue;
      this.heights[index] = height;
      this.clean = Math.min(this.clean, index);
    }
    this.place();
  }

  /** Put rows and view where they belong, and render other rows if these are not enough. */
  place() {
    const { count } = this.props;
    const view = this.view;
    if (this.heights.length > count) {
      this.heights.length = count;
      this.clean = Math.min(this.clean, count);
    }
    this.scrolled(); // the reader may have scrolled since the last event
    const total = this.offset(count);
    const most = Math.max(0, total - view.clientHeight);
    this.rows.style.height = `${total}px`;
    this.block.style.transform = `translateY(${this.offset(Math.min(this.state.first, count))}px)`;
    const top = this.following ? most : Math.min(most, Math.max(0, this.offset(Math.min(this.anchor.index, count)) + this.anchor.delta));
    if (Math.abs(view.scrollTop - top) >= 1) view.scrollTop = top;
    this.top = view.scrollTop;
    this.cover();
  }

  /** Render the rows near the visible part. An open dialog of a row keeps its row. */
  cover() {
    const { view, props, state } = this;
    if (!props.count || !view.clientHeight || view.querySelector("dialog[open]")) return;
    const end = this.top + view.clientHeight;
    const needed = [this.indexAt(this.top - NEAR), this.indexAt(end + NEAR)];
    if (needed[0] >= state.first && needed[1] <= state.last && state.last < props.count) return;
    this.setState({ first: this.indexAt(this.top - MARGIN), last: this.indexAt(end + MARGIN) });
  }

  watchRows() {
    const rows = new Set(this.block.children);
    for (const row of this.seen) if (!rows.has(row)) this.observer.unobserve(row);
    for (const row of rows) if (!this.seen.has(row)) this.observer.observe(row);
    this.seen = rows;
  }

  scrolled = () => {
    const top = this.view.scrollTop;
    if (Math.abs(top - this.top) < 1) return;
    const ahead = top > this.top;
    this.top = top;
    this.follow(this.isAtEnd() || (this.following && ahead));
    const index = this.indexAt(top);
    this.anchor = { index, delta: top - this.offset(index) };
    this.cover();
  };

  render({ count, row, label }, { first, last }) {
    const indices = [];
    for (let index = first; index <= Math.min(last, count - 1); index += 1) indices.push(index);
    return html`<div class="view" ref=${element => (this.view = element)} onScroll=${this.scrolled} tabindex="0" role=${count ? "feed" : null} aria-label=${count ? label : null}>
      <div class="rows" ref=${element => (this.rows = element)}><div class="block" ref=${element => (this.block = element)}>${indices.map(row)}</div></div>
    </div>`;
  }
}
