"""The helpers of the browser's tests, on small pages: each finds the mistake that it is for, and nothing else."""

import json
from collections.abc import Sequence

import pytest
from playwright.sync_api import Page

from tests.support.browser.chromium import WatchedContext
from tests.support.browser.fixtures import OpenContext
from tests.support.browser.page import (
    assert_no_injection,
)
from tests.support.stack import until

pytestmark = pytest.mark.slow

ORIGIN = "http://127.0.0.1:9"
"""The origin of the small pages, which the browser gets from the test: no server is there."""
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; worker-src 'self'"
CSS = """
[data-text] { unicode-bidi: isolate; white-space: pre-wrap; overflow-wrap: anywhere }
.box { height: 300px; overflow: auto; position: relative }
.virtual article { position: absolute }
"""
VIRTUAL_LIST = """
const box = document.querySelector(".box"), end = box.appendChild(document.createElement("div"))
Object.assign(end.style, {position: "absolute", top: texts.length * 100 + "px", height: "1px", width: "1px"})
const show = () => {
  for (const shown of box.querySelectorAll("article")) shown.remove()
  const first = Math.floor(box.scrollTop / 100)
  for (let seq = first; seq < Math.min(first + 4, texts.length); seq++) box.append(article(seq))
}
box.onscroll = show
show()
"""
"""A conversation of which only the steps in the window are elements, 100 px each."""


def serve(page: Page, body: str, script: str = "", policy: str = POLICY) -> None:
    """Open a page with this body and script under the policy."""
    document = (
        '<!doctype html><html lang=en><head><title>test</title><link rel=stylesheet href="ui/page.css">'
        f'<link rel=icon href="ui/icon.svg"><script src="ui/page.js" defer></script></head><body>{body}</body></html>'
    )
    page.route(f"{ORIGIN}/", lambda route: route.fulfill(body=document, content_type="text/html", headers=_csp(policy)))
    page.route(f"{ORIGIN}/ui/page.css", lambda route: route.fulfill(body=CSS, content_type="text/css"))
    page.route(f"{ORIGIN}/ui/page.js", lambda route: route.fulfill(body=script, content_type="text/javascript"))
    page.route(f"{ORIGIN}/ui/icon.svg", lambda route: route.fulfill(body="<svg/>", content_type="image/svg+xml"))
    page.goto(f"{ORIGIN}/")


def _csp(policy: str) -> dict[str, str]:
    return {"Content-Security-Policy": f"{policy}; img-src 'self'", "Content-Type": "text/html; charset=utf-8"}


def conversation(texts: Sequence[str], name: str = "box") -> str:
    """Return the markup of a conversation in a box that scrolls. Its script is `writing(texts)`."""
    steps = "".join(f'<article data-step="{seq}"><pre data-text></pre></article>' for seq in range(len(texts)))
    steps = "" if "virtual" in name else steps
    return f'<main data-page="task"><h1>task</h1><section class="{name}" tabindex="0">{steps}</section></main>'


def writing(texts: Sequence[str], virtual: bool = False) -> str:
    """Return the script that writes these texts into the steps."""
    write = "document.querySelectorAll('pre').forEach((pre, seq) => { pre.textContent = texts[seq] })"
    new = """const article = seq => {
      const step = document.createElement("article"), text = step.appendChild(document.createElement("pre"))
      step.dataset.step = seq, text.dataset.text = "", text.textContent = texts[seq]
      step.style.top = seq * 100 + "px"
      return step
    }"""
    return f"const texts = {json.dumps(texts)}\n{new}\n{VIRTUAL_LIST if virtual else write}"


def wait_for_problem(watched: WatchedContext, part: str) -> None:
    """Wait until the watch has found a problem with this text. The page's events arrive only during calls of it."""

    def is_found() -> bool:
        watched.page.wait_for_timeout(50)
        return any(part in problem for problem in watched.watch.problems)

    until(is_found, 20, lambda: f"{part!r} is among {watched.watch.problems}")


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("console.error('it is broken')", "console error: it is broken"),
        ("console.warn('it may be broken')", "console warning: it may be broken"),
        ("throw new Error('unexpected')", "uncaught: unexpected"),
        ("Promise.reject(new Error('refused'))", "uncaught: refused"),
        ("document.body.innerHTML += '<b style=color:red>x</b>'", "Content Security Policy"),
        ("setTimeout('1')", "Content Security Policy"),
        ("alert(1)", "dialog alert: 1"),
        (
            "new Image().src = 'http://127.0.0.1:10/pixel.png'",
            "request to another origin: GET http://127.0.0.1:10/pixel",
        ),
    ],
)
def test_a_problem_of_a_page_fails_its_test(open_watched: OpenContext, script: str, problem: str) -> None:
    watched = open_watched(origin=ORIGIN)
    serve(watched.page, "<main></main>", script)
    wait_for_problem(watched, problem)
    with pytest.raises(AssertionError, match="the page has problems"):
        watched.watch.check()
    watched.watch.allow(".")


def test_requests_of_a_shared_worker_to_another_host_fail_the_test(open_watched: OpenContext) -> None:
    watched = open_watched(origin=ORIGIN)
    script = "onconnect = () => fetch('http://attacker.invalid/text', {mode: 'no-cors'}).catch(() => {})"
    watched.context.route(
        f"{ORIGIN}/ui/worker.js", lambda route: route.fulfill(body=script, content_type="text/javascript")
    )
    start = f"new SharedWorker(URL.createObjectURL(new Blob([{script!r}], {{type: 'text/javascript'}})))"
    serve(watched.page, "<main></main>", start, policy="default-src * blob: 'unsafe-inline'")
    wait_for_problem(watched, "attacker.invalid")
    assert watched.watch.problems == ["request to another host: GET http://attacker.invalid/text HTTP/1.1"]
    watched.watch.allow("attacker")


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("<a href='javascript:1'>x</a>", "A href=javascript:1"),
        ("<a href='https://attacker.invalid'>x</a>", "A href=https://attacker.invalid"),
        ("<form action='/x'></form>", "<form"),
        ("<div data-step=0><p data-text>x</p></div>", "without isolation"),
    ],
)
def test_injected_markup_is_found(open_watched: OpenContext, body: str, found: str) -> None:
    page = open_watched(origin=ORIGIN).page
    serve(page, f"<main>{body}</main>", "document.querySelectorAll('p').forEach(p => p.style.unicodeBidi = 'normal')")
    with pytest.raises(AssertionError, match=found):
        assert_no_injection(page)
