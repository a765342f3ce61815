// virtual_list: a list of which only the rows near the visible part exist. Rows have any height, and may change it.
//
//   rows ─► measured ─► padding for those that do not exist; the row that the reader sees first stays, or the end

import { Component, html } from "../vendor/preact.js";

const MARGIN = 900; // pixels around the visible part that have rows
const GUESS = 90; // height of a row that was never shown

/** Props: count, and row(index) ─► keyed vnode with data-index. */
export class VirtualList extends Component {
  heights = [];
  starts = [0];
  top = 0;
  index = 0; // the first visible row
  above = 0; // pixels of it that are not visible
  atEnd = true;

  componentDidMount() {
    this.observer = new ResizeObserver(this.place);
    for (const box of [this.view, this.view.firstChild]) this.observer.observe(box);
  }

  componentDidUpdate = () => this.place();
  componentWillUnmount = () => this.observer.disconnect();

  rowAt = index => this.view.querySelector(`[data-index="${index}"]`);
  indexAt = y => Math.max(0, this.starts.findLastIndex((start, index) => start <= y && index < this.props.count));

  /** Bring a row into view, and move the focus there. */
  show(index, focus) {
    const row = this.rowAt(index);
    this.atEnd = index === this.props.count - 1;
    this.asked = focus ? index : null;
    if (row) row.scrollIntoView({ block: "nearest" });
    else Object.assign(this, { index, above: -40 });
    this.place();
  }

  place = () => {
    const { view, heights, top, props: { count } } = this;
    const { scrollTop, scrollHeight, clientHeight } = view;
    if (!clientHeight) return;
    if (Math.abs(scrollTop - top) >= 1) { // the reader has scrolled
      this.atEnd = scrollTop + clientHeight > scrollHeight - 4 || (this.atEnd && scrollTop > top);
      this.index = this.indexAt(scrollTop);
      this.above = scrollTop - this.starts[this.index];
    }
    for (const row of view.firstChild.children) heights[row.dataset.index] = row.getBoundingClientRect().height;
    this.starts = [0];
    for (let i = 0; i < count; i++) this.starts.push(this.starts[i] + (heights[i] ??= GUESS));
    const { starts, index, above, atEnd } = this;
    const wanted = atEnd ? starts[count] : starts[Math.min(index, count)] + above;
    if (Math.abs(wanted - scrollTop) >= 1) view.scrollTop = wanted;
    this.top = view.scrollTop;
    const asked = this.rowAt(this.asked);
    if (asked) this.asked = asked.focus({ preventScroll: true });
    if (view.querySelector("dialog[open]")) return; // its row stays
    const first = this.indexAt(this.top - MARGIN);
    const end = Math.min(count, this.indexAt(this.top + clientHeight + MARGIN) + 1);
    const state = { first, end, atEnd, paddingTop: starts[first], paddingBottom: starts[count] - starts[end] };
    if (Object.keys(state).some(name => state[name] !== this.state[name])) this.setState(state);
  };

  render({ count, row }, { first, end, atEnd, ...style }) {
    const rows = [];
    for (let index = first; index < Math.min(end, count); index++) rows.push(row(index));
    return html`<div class="view" ref=${view => (this.view = view)} onScroll=${this.place} tabindex="0" role="region" aria-label="Steps"><div style=${style}>${rows}</div></div>
      ${!atEnd && html`<button type="button" class="to-end" data-action="end" onClick=${() => this.show(count - 1)}>↓ To the end</button>`}`;
  }
}
