"""program: a page with a part of the web view alone. The browser gets its files from the test: no server is there."""

from typing import Final

from playwright.sync_api import Page

from roboco.gateway.web.bundle import bundle
from roboco.gateway.web.routes import read_sources

ORIGIN: Final = "http://127.0.0.1:9"
"""The origin of the page."""
TYPES: Final = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
PAGE: Final = """<!doctype html><html lang="en"><head><title>test</title>
<link rel="icon" href="ui/icon.svg">
<link rel="stylesheet" href="ui/app.css">
<script type="module" src="ui/page.js"></script></head><body><div id="app"></div>"""


def open_program(page: Page, program: str) -> Page:
    """Run a module, which imports those of the web view and defines `window.draw`, and return its page."""
    sources = read_sources()
    sources |= {"page.js": program, "app.css": bundle(sources)["css/app.css"]}
    files = {"": PAGE, **{f"ui/{path}": text for path, text in sources.items()}}
    for path, text in files.items():
        kind = TYPES[path.rpartition(".")[2] or "html"]
        page.route(
            f"{ORIGIN}/{path}", lambda route, _, text=text, kind=kind: route.fulfill(body=text, content_type=kind)
        )
    page.goto(f"{ORIGIN}/")
    page.wait_for_function("() => Boolean(window.draw)")
    return page
