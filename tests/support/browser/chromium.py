"""A headless Chromium that Playwright drives, and its contexts: a colour scheme, a width, and a watch of each.

The Chromium is that of the machine: Playwright's own is a download that package registries do not have.

    with start_browser() as browser, open_context(browser, gateway.url, scheme="dark", width=390) as watched:
        watched.page.goto(gateway.url)
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.support.browser.watch import PageWatch

Scheme = Literal["light", "dark"]
SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")
HEIGHTS: Final = {1440: 900, 390: 844}
"""The height of a window by its width."""
TIMEOUT: Final = 120_000
"""Milliseconds that an action or an expectation waits."""
FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
"""Flags of Chromium. With the last one it finds no host, not even for its own updates."""


def find_chromium() -> str:
    """Return the path of Chromium. Skip the test if it is not installed; in CI, fail it."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        assert not os.environ.get("CI"), "Chromium is not installed; `.ci/run` installs it"
        pytest.skip("Chromium is not installed")
    return program


@contextmanager
def start_browser() -> Iterator[Browser]:
    """Yield a headless Chromium.

    Playwright's synchronous interface holds an event loop of this thread, so the block cannot call `asyncio.run`.
    """
    program = find_chromium()
    with sync_playwright() as playwright:
        expect.set_options(timeout=TIMEOUT)
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class WatchedContext:
    """A context: a profile with its cookies and storage, its first page, and the watch of all its pages."""

    def __init__(self, context: BrowserContext, watch: PageWatch) -> None:
        self.context = context
        self.watch = watch
        self.page: Page = context.new_page()

    def open_page(self, url: str) -> Page:
        """Return another page of the context at this address."""
        page: Page = self.context.new_page()
        page.goto(url)
        return page


@contextmanager
def open_context(
    browser: Browser, origin: str, *, scheme: Scheme = "light", width: int = 1440
) -> Iterator[WatchedContext]:
    """Yield a context for pages of this origin. At the end, raise AssertionError if its watch has found a problem."""
    context = browser.new_context(
        viewport={"width": width, "height": HEIGHTS.get(width, 900)},
        color_scheme=scheme,
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
    )
    context.set_default_timeout(TIMEOUT)
    watch = PageWatch(context, origin)
    try:
        yield WatchedContext(context, watch)
        watch.check()
    finally:
        context.close()
