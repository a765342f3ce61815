"""Texts of models as a safe subset of Markdown: what their elements are, how they grow, and what they cost."""

import json
from typing import Final

import pytest
from playwright.sync_api import Page

from tests.support.browser.fixtures import OpenContext
from tests.support.browser.hostile import HOSTILE_TEXT
from tests.support.browser.page import assert_no_injection
from tests.support.browser.program import ORIGIN, open_program
from tests.support.browser.teams import MARKDOWN

pytestmark = pytest.mark.slow

PROGRAM: Final = """
import { html, render } from "./vendor/preact.js";
import { Markdown } from "./js/markdown.js";

const root = document.getElementById("app");
window.added = 0;
const count = ({ addedNodes, target }) => (added += target.matches(".md") ? addedNodes.length : 0);
new MutationObserver(found => found.forEach(count)).observe(root, { childList: true, subtree: true });
window.draw = (text, raw) => render(html`<main class=${raw ? "raw" : ""}><${Markdown} text=${text} /><//>`, root);
window.look = () => [...document.querySelectorAll(".md > *")].map(line => [line.className, line.innerText.trim()]);
"""


@pytest.fixture
def page(open_watched: OpenContext) -> Page:
    """Return a page that draws a text."""
    return open_program(open_watched(origin=ORIGIN).page, PROGRAM)


def draw(page: Page, text: str, *, raw: bool = False) -> list[list[str]]:
    """Draw a text, and return the kind and the visible text of each line."""
    page.evaluate(f"draw({json.dumps(text)}, {json.dumps(raw)})")
    assert page.evaluate("document.querySelector('.md').textContent") == text
    lines: list[list[str]] = page.evaluate("look()")
    return lines


def test_marks_are_hidden_and_the_switch_shows_the_text_as_it_is(page: Page) -> None:
    shown = draw(page, MARKDOWN)
    assert shown[0] == ["head", "The tide table"]
    assert shown[2][1] == "The next tide is high; see the almanac(https://almanac.example/tides?day=1) or tides --now."
    assert ["item", "berth 4 has no lamp"] in shown
    assert ["cells", "place low high"] in [[kind, " ".join(line.split())] for kind, line in shown]
    assert ["pre", "def leave(tide):  # **not bold**"] in shown
    assert page.locator("strong").all_inner_texts() == ["next", "no", "mole"]
    assert [one.get_attribute("href") for one in page.locator("a").all()] == [
        "https://almanac.example/tides?day=1",
        "https://sea.example/a",
    ]
    raw = draw(page, MARKDOWN, raw=True)
    assert "".join(f"{line}\n" for _, line in raw).split() == MARKDOWN.split()


HOSTILE_TEXTS = (
    HOSTILE_TEXT,
    f"**{HOSTILE_TEXT}**\n`{HOSTILE_TEXT}`\n| {HOSTILE_TEXT} |\n```\n{HOSTILE_TEXT}",
    "[a](javascript:window.canary=1) [b](data:text/html,x)\n[c](https://a.example/\u202emoc.knab) **[d](about:x)**",
    '[x" onclick="window.canary=2](https://a.example/"onclick="window.canary=3) ![i](https://a.example/i.png)',
    "`<img src=x onerror=window.canary=4>` *<script>window.canary=5</script>* # <svg onload=window.canary=6>",
)


def test_a_hostile_text_is_text(page: Page) -> None:
    for text in HOSTILE_TEXTS:
        draw(page, text)
        assert_no_injection(page)
        tags: list[str] = page.evaluate(
            "[...new Set([...document.querySelectorAll('.md *')].map(one => one.localName))]"
        )
        assert {*tags} <= {"div", "i", "strong", "em", "code", "a", "small", "span"}, text


def test_a_growing_text_is_not_drawn_anew(page: Page) -> None:
    lines = [f"line {number} is **bold**" for number in range(300)]
    text = "\n".join(lines)
    added = page.evaluate(
        """async text => {
          draw("");
          await new Promise(requestAnimationFrame);
          added = 0;
          for (let end = 0; end <= text.length + 9; end += 10) draw(text.slice(0, end));
          await new Promise(requestAnimationFrame);
          return added;
        }""",
        text,
    )
    assert added <= len(lines) + len(text) / 10 + 10  # each line once, and the open one for each piece
    assert page.evaluate("document.querySelector('.md').textContent") == text


def test_a_text_that_another_one_replaces_is_drawn_anew(page: Page) -> None:
    draw(page, "```\none\ntwo")
    assert draw(page, "# three\n*four*") == [["head", "three"], ["", "four"]]


MARKS = ("*a*", "***a", "`a`", "[a](https://x) ", "* ", "| ", "> ", "\n", "a", "[", "https://x.", "**a*b")


def test_a_megabyte_of_marks_costs_little(page: Page) -> None:
    """The work grows with the length alone: with its square, a text would take hours."""
    for piece in MARKS:
        text = piece * (1_000_000 // len(piece))
        for long in (text, "\n".join(text[at : at + 1999] for at in range(0, len(text), 1999))):
            page.evaluate("draw('')")
            page.evaluate("text => draw(text)", long)
            assert page.evaluate("document.querySelector('.md').textContent.length") == len(long), piece
            assert page.evaluate("document.querySelectorAll('.md *').length") <= 15_000, piece
