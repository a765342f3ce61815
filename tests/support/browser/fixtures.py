"""Fixtures of the browser's tests: a browser and a deployment for each module, and contexts for each test."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Protocol

import pytest
from playwright.sync_api import Browser, Page

from tests.support.browser.chromium import Scheme, WatchedContext, open_context, start_browser
from tests.support.browser.stack import WebStack, web_stack


class OpenContext(Protocol):
    """Open a context for the deployment's page. It is closed and checked after the test."""

    def __call__(self, *, scheme: Scheme = "light", width: int = 1440, origin: str = "") -> WatchedContext: ...


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield a browser. It ends with its module, since other modules of the same process may run event loops."""
    with start_browser() as started:
        yield started


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebStack]:
    """Yield a deployment over a workspace in a folder."""
    with web_stack(tmp_path_factory.mktemp("web")) as started:
        yield started


@pytest.fixture
def open_watched(browser: Browser, request: pytest.FixtureRequest) -> Iterator[OpenContext]:
    """Yield a function that opens contexts, by default for pages of the fixture `web`."""
    with ExitStack() as contexts:

        def open_one(*, scheme: Scheme = "light", width: int = 1440, origin: str = "") -> WatchedContext:
            url: str = origin or request.getfixturevalue("web").url
            opened = open_context(browser, url, scheme=scheme, width=width)
            return contexts.enter_context(opened)

        yield open_one


@pytest.fixture
def light_page(open_watched: OpenContext) -> Page:
    """Return the page of a light context of 1440 px."""
    return open_watched().page
