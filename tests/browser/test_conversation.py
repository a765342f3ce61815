"""Where the conversation of a task is: at a chosen step or at the end, and where the reader has scrolled to."""

import json
from typing import Final

import pytest
from playwright.sync_api import Page

from tests.support.browser.fixtures import OpenContext
from tests.support.browser.program import ORIGIN, open_program

pytestmark = pytest.mark.slow

PROGRAM: Final = """
import { html, render } from "./vendor/preact.js";
import { Conversation } from "./js/conversation.js";
import { addStep, newTask } from "./js/task_state.js";

const task = Object.assign(newTask("t"), { status: "running" });
const given = { taskId: "t", task, can: () => false, effects: {}, onSelect: () => {}, selected: null, ready: false };
const stepOf = seq => ({
  seq, step_id: `s${seq}`, agent_name: "writer", created_at: "2026-01-01T00:00:00Z", metadata: {},
  parts: [{ type: "text", text: `step ${seq} `.repeat(20 + (seq * 37) % 150) }],
});
window.draw = async (count, changes) => {
  while (task.steps.length < count) addStep(task, stepOf(task.steps.length));
  Object.assign(given, changes);
  const above = html`<header /><div /><div />`;
  const view = html`<main class="task">${above}<div class="talk"><${Conversation} ...${given} /><//><//>`;
  render(view, document.getElementById("app"));
  return visible();
};
window.scroll = top => {
  document.querySelector(".view").scrollTop = top;
  return visible();
};
async function visible() {
  for (let frame = 0; frame < 5; frame++) await new Promise(requestAnimationFrame);
  const { top, bottom } = document.querySelector(".view").getBoundingClientRect();
  const rows = [...document.querySelectorAll("[data-step]")].map(row => [row, row.getBoundingClientRect()]);
  const inside = rows.filter(([, place]) => place.bottom > top + 1 && place.top < bottom - 1);
  return inside.map(([row]) => Number(row.dataset.step));
}
"""
"""A page with a conversation alone. `draw` and `scroll` return the positions of the visible steps."""


@pytest.fixture
def page(open_watched: OpenContext) -> Page:
    """Return the page, without steps."""
    return open_program(open_watched(origin=ORIGIN).page, PROGRAM)


def draw(page: Page, count: int, **changes: object) -> list[int]:
    """Draw the conversation with this number of steps and changed properties. Return the visible steps."""
    shown: list[int] = page.evaluate(f"draw({count}, {json.dumps(changes)})")
    return shown


def scroll(page: Page, top: int) -> list[int]:
    """Scroll to this place. Return the visible steps."""
    shown: list[int] = page.evaluate(f"scroll({top})")
    return shown


def test_a_linked_step_stays_visible_while_the_steps_after_it_are_read(page: Page) -> None:
    draw(page, 40, selected=50)
    for count in (51, 120, 200):
        assert 50 in draw(page, count)
    assert 50 in draw(page, 200, ready=True)
    assert 50 in draw(page, 220)


def test_a_reader_who_scrolls_while_steps_are_read_stays_there(page: Page) -> None:
    draw(page, 60, selected=50)
    top = scroll(page, 0)
    assert top[0] == 0
    assert draw(page, 200, ready=True) == top


def test_paper_has_all_steps(page: Page) -> None:
    assert len(draw(page, 200)) < 20
    assert page.locator("[data-step]").count() < 100
    page.evaluate("document.body.className = 'beforeprint'")
    draw(page, 200, ready=True)
    assert page.locator("[data-step]").count() == 200
    page.emulate_media(media="print")
    bottom: float = page.evaluate("document.querySelector('[data-step=\"199\"]').getBoundingClientRect().bottom")
    assert bottom == pytest.approx(
        page.evaluate("document.querySelector('main').getBoundingClientRect().bottom"), abs=2
    )
