"""Journeys through the web view: a person watches teams work, while workers, gateway and Redis are killed."""

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.axe import assert_accessible
from tests.support.browser.chromium import Scheme
from tests.support.browser.fixtures import OpenContext
from tests.support.browser.hostile import HOSTILE_TITLE
from tests.support.browser.page import (
    assert_no_injection,
    assert_no_sideways_scroll,
    assert_page_equals_history,
    open_view,
)
from tests.support.browser.stack import WebStack
from tests.support.browser.states import EXAMPLES, open_task, run_example
from tests.support.browser.watch import OUTAGE

pytestmark = [pytest.mark.slow, pytest.mark.workers]

SLOW = "150 words every 20 ms"
"""A reply of three seconds, in which a test can kill something."""
ACCESSIBLE = ("approval", "client", "delegation", "hostile", "map", "typed", "markdown")
"""Teams whose pages have each kind of element."""
DARK_IN_EACH_RUN = ("approval", "markdown")
SLOWER = "600 words every 20 ms"
"""A reply of twelve seconds, during which a page must show the running task."""


def restart_redis(web: WebStack) -> None:
    """Kill Redis and restart it with its data."""
    web.restart_redis(keep=True)


def empty_redis(web: WebStack) -> None:
    """Kill Redis and restart it without its data."""
    web.restart_redis(keep=False)


@pytest.mark.parametrize(
    ("team", "scheme", "width"),
    [
        *((team, "light", 1440) for team in EXAMPLES),
        *zip(DARK_IN_EACH_RUN, ("dark", "dark"), (1440, 390), strict=True),
        *(
            pytest.param(team, "dark", 390, marks=pytest.mark.nightly)
            for team in EXAMPLES
            if team not in DARK_IN_EACH_RUN
        ),
    ],
)
def test_the_page_of_a_task_equals_its_history_and_is_accessible(
    web: WebStack, open_watched: OpenContext, team: str, scheme: Scheme, width: int
) -> None:
    task = run_example(web, team)
    page = open_watched(scheme=scheme, width=width).page
    open_task(page, web, task)
    assert_page_equals_history(page, task)
    assert_no_injection(page)
    assert_no_sideways_scroll(page)
    if team in ACCESSIBLE:
        assert_accessible(page)


def test_text_is_shown_while_the_model_writes_it(web: WebStack, light_page: Page) -> None:
    task = web.run("chat", SLOWER)
    open_task(light_page, web, task)
    expect(light_page.locator("main")).to_contain_text("der See.")
    assert task.summary().status == "running"
    web.wait_status(task, "completed")
    assert_page_equals_history(light_page, task)


def test_a_reset_is_announced_and_the_page_compared_with_the_history(web: WebStack, open_watched: OpenContext) -> None:
    """Redis loses all data while the page is open."""
    watched = open_watched()
    watched.watch.allow(*OUTAGE)
    page = watched.page
    task = web.run("line", SLOW)
    open_task(page, web, task)
    expect(page.locator("main")).to_contain_text("der See.")
    generation = page.locator("[data-integrity] code").inner_text()
    empty_redis(web)
    banner = page.locator('[data-banner="reset"]')
    expect(banner).to_contain_text("The live log was lost", timeout=60_000)
    web.wait_status(task, "completed", seconds=120)
    integrity = page.locator("[data-integrity]")
    expect(integrity).to_have_attribute("data-state", "ended")
    expect(integrity).to_contain_text("no gap")
    expect(integrity).to_contain_text(f"equal to the history: {len(task.history())} steps")
    expect(integrity).not_to_contain_text(generation)
    expect(banner).to_contain_text("equal to the history")
    page.get_by_role("button", name="Close the banner").click()
    expect(banner).to_have_count(0)
    assert_page_equals_history(page, task)


def test_text_of_a_broken_attempt_is_void(web: WebStack, light_page: Page) -> None:
    web.break_next_turn()
    task = web.run("chat", "12 words every 10 ms")
    open_task(light_page, web, task)
    web.wait_status(task, "completed")
    assert_page_equals_history(light_page, task)


def test_eight_tabs_follow_a_task_each_and_a_ninth_opens(web: WebStack, open_watched: OpenContext) -> None:
    """A browser has six connections to a host."""
    watched = open_watched()
    tasks = [web.run("chat", SLOW) for _ in range(8)]
    open_task(watched.page, web, tasks[0])
    pages = [watched.page, *(watched.open_page(f"{web.url}/#/tasks/{task.task_id}") for task in tasks[1:])]
    for page in pages:
        expect(page.locator("main")).to_contain_text("der See.")
    open_view(watched.context.new_page(), web.url, "#/", "list")
    for page, task in zip(pages, tasks, strict=True):
        web.wait_status(task, "completed")
        assert_page_equals_history(page, task)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), pytest.param("dark", 390, marks=pytest.mark.nightly)])
def test_the_list_shows_tasks_of_each_status(
    web: WebStack, open_watched: OpenContext, scheme: Scheme, width: int
) -> None:
    task = run_example(web, "hostile")
    waiting = [run_example(web, team) for team in ("approval", "client", "chat")]
    page = open_watched(scheme=scheme, width=width).page
    page.goto(f"{web.url}/#/tasks/{task.task_id}")
    expect(page).to_have_title(f"Roboco · {HOSTILE_TITLE}")
    open_view(page, web.url, "#/", "list")
    expect(page).to_have_title("Roboco")
    for listed in (task, *waiting):
        expect(page.locator(f'[data-task="{listed.task_id}"]').first).to_be_visible()
    assert_no_injection(page)
    assert_no_sideways_scroll(page)
    assert_accessible(page)
