"""The web view as tests read it: its roots, the text of its steps, and the absence of injected markup.

A step is `[data-step="SEQ"]`, and `[data-text]` in it is text of the history, character by character. A long
conversation shows only the steps around the window, so the reader scrolls through all of it.
"""

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from playwright.sync_api import Locator, Page, expect

from roboco import Task, TaskStep

FIND_BOX: Final = """
const findBox = () => {
  let box = document.querySelector("[data-step]")?.parentElement
  while (box && !(/auto|scroll/.test(getComputedStyle(box).overflowY) && box.scrollHeight > box.clientHeight + 1))
    box = box.parentElement
  return box ?? document.scrollingElement
}
"""
READ_STEPS: Final = (
    f"async () => {{ {FIND_BOX}"
    """
  const shown = {}
  const take = () => {
    for (const step of document.querySelectorAll("[data-step]")) {
      const texts = [...step.querySelectorAll("[data-text]")].filter(text => text.closest("[data-step]") === step)
      shown[step.dataset.step] = texts.map(text => text.textContent).join("")
    }
  }
  const frame = () => new Promise(done => (requestAnimationFrame(() => setTimeout(done)), setTimeout(done, 1500)))
  if (!document.querySelector("[data-step]")) return shown
  const box = findBox()
  const before = box.scrollTop, atEnd = before + box.clientHeight >= box.scrollHeight - 2
  box.scrollTop = 0
  const deadline = performance.now() + 300_000
  for (let farthest = -1, still = 0; still < 3; ) {
    if (performance.now() > deadline) throw new Error(`no end of the conversation in five minutes, at ${farthest} px`)
    await frame(); await frame(); take()
    if (box.scrollTop > farthest) farthest = box.scrollTop, still = 0
    else still++
    box.scrollTop = farthest + Math.max(80, box.clientHeight * 0.8)
  }
  box.scrollTop = atEnd ? box.scrollHeight : before
  return shown
}
"""
)
FIND_INJECTED: Final = """
() => {
  const found = []
  if (window.canary !== undefined) found.push("a script of the text ran")
  for (const script of document.querySelectorAll("script"))
    if (!script.src.startsWith(new URL("ui/", document.baseURI).href)) found.push(script.outerHTML)
  for (const element of document.querySelectorAll("iframe, object, embed, base, form[action], style, svg script"))
    found.push(element.outerHTML.slice(0, 200))
  const besides = link => [link, link.nextElementSibling?.nextElementSibling]
  const isLink = link => link.matches("[data-text] a[target=_blank][rel=noreferrer]") && /^https?:$/.test(link.protocol)
    && besides(link).some(one => one?.textContent.includes(link.getAttribute("href")))
  for (const element of document.querySelectorAll("*"))
    for (const {name, value} of element.attributes)
      if (name.startsWith("on") || /^(href|src|srcdoc|action|formaction|xlink:href)$/.test(name)
          && !isLink(element)
          && !/^(#|blob:|ui\\/|v1\\/|\\.\\/|\\/ui\\/|\\/v1\\/)/.test(value) && !value.startsWith(location.origin + "/"))
        found.push(`${element.tagName} ${name}=${value.slice(0, 200)}`)
  for (const text of document.querySelectorAll("[data-text]"))
    if (getComputedStyle(text).unicodeBidi === "normal") found.push("a text without isolation of its direction")
  return [...new Set(found)]
}
"""
DATA_NAME = re.compile(r"[a-z-]+")


def root(page: Page, name: str) -> Locator:
    """Return the root of this page of the view: list, task, operations or sign-in."""
    return page.locator(f'main[data-page="{name}"]')


def open_view(page: Page, url: str, fragment: str, name: str) -> None:
    """Open a route of the view, such as `#/tasks/ID`, and wait for its root."""
    page.goto(f"{url}/{fragment}")
    expect(root(page, name)).to_be_visible()


def button(page: Page, action: str) -> Locator:
    """Return the button of an action, such as stop or approve."""
    assert DATA_NAME.fullmatch(action)
    return page.locator(f'button[data-action="{action}"]')


def step(page: Page, seq: int) -> Locator:
    """Return a step of the conversation."""
    return page.locator(f'[data-step="{seq}"]')


def read_steps(page: Page) -> dict[int, str]:
    """Return the text of each step that the page shows, by position. Scroll through the whole conversation.

    The tab moves to the front, since a tab behind another one draws one frame a second.
    """
    page.bring_to_front()
    shown: dict[str, str] = page.evaluate(READ_STEPS)
    return {int(seq): text for seq, text in shown.items() if seq.isdecimal()}


def assert_page_equals_history(page: Page, task: Task, seconds: float = 180) -> None:
    """Assert that the page shows the text of each step of the task's history, character by character, and no more.

    The page has these seconds for steps that it has not received yet. The task must not change meanwhile.
    """
    steps = task.history()
    deadline = time.monotonic() + seconds
    while difference := difference_of(read_steps(page), steps):
        assert time.monotonic() < deadline, difference
        page.wait_for_timeout(200)


def difference_of(shown: Mapping[int, str], steps: Sequence[TaskStep]) -> str | None:
    """Return the first difference between the texts of a page and a history, or None."""
    for entry in steps:
        if entry.seq not in shown:
            return f"step {entry.seq} of {entry.agent_name} is not on the page"
        if shown[entry.seq] != entry.text:
            return f"step {entry.seq} of {entry.agent_name}: {_first_difference(shown[entry.seq], entry.text)}"
    if extra := sorted(shown.keys() - {entry.seq for entry in steps}):
        return f"the page has the steps {extra[:10]}, which the history has not"
    return None


def _first_difference(shown: str, stored: str) -> str:
    length = min(len(shown), len(stored))
    at = next((place for place in range(length) if shown[place] != stored[place]), length)
    around = slice(max(0, at - 20), at + 20)
    return f"at character {at} the page has {shown[around]!r}, the history {stored[around]!r}"


def assert_no_injection(page: Page) -> None:
    """Assert that no text of a model or user became markup, a script, a style or a link of the page."""
    found: list[Any] = page.evaluate(FIND_INJECTED)
    assert not found, f"the page has: {found}"


def assert_no_sideways_scroll(page: Page) -> None:
    """Assert that the document is no wider than the window."""
    extra: float = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert extra <= 0, f"the page is {extra} px wider than the window of {page.viewport_size}"
