"""program: a page with a part of the web view alone. The browser gets its files from the test: no server is there."""

import re
from typing import Final

from playwright.sync_api import Page

from tests.support.javascript import ASSETS

ORIGIN: Final = "http://127.0.0.1:9"
"""The origin of the page."""
TYPES: Final = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
PAGE: Final = """<!doctype html><html lang="en"><head><title>test</title>
LINKS
<script type="module" src="ui/page.js"></script></head><body><div id="app"></div>"""


def open_program(page: Page, program: str) -> Page:
    """Run a module, which imports those of the web view and defines `window.draw`, and return its page."""
    found = {
        str(path.relative_to(ASSETS)): path.read_text() for path in ASSETS.rglob("*.*") if path.suffix[1:] in TYPES
    }
    links = re.findall("<link .*>", found["index.html"])
    page_text = PAGE.replace("LINKS", "\n".join(links))
    files = {"": page_text, **{f"ui/{path}": text for path, text in (found | {"page.js": program}).items()}}
    for path, text in files.items():
        kind = TYPES[path.rpartition(".")[2] or "html"]
        page.route(
            f"{ORIGIN}/{path}", lambda route, _, text=text, kind=kind: route.fulfill(body=text, content_type=kind)
        )
    page.goto(f"{ORIGIN}/")
    page.wait_for_function("() => Boolean(window.draw)")
    return page
