"""Large tasks in the web view: 10,000 steps, and 50 texts that are written at the same time.

Times are printed and not asserted, since other processes share the machine. `-s` shows them.
"""

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser.chromium import save_picture
from tests.support.browser.fixtures import OpenContext
from tests.support.browser.long_task import LONG_TASK_STEPS, start_live_tasks, write_long_task
from tests.support.browser.page import open_view, scrolling_box, step
from tests.support.browser.speed import heap_megabytes, measured, scroll
from tests.support.browser.stack import WebStack, web_stack

pytestmark = [pytest.mark.slow, pytest.mark.workers]

LIVE_TASKS = 50
ZOOMS = 12
"""Clicks that enlarge the lanes about a hundred times."""
MAX_ELEMENTS = 5_000
"""Elements of the page of a long task: a list of all steps would have ten times as many."""


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebStack]:
    """Yield a deployment whose agents workers run all turns at the same time."""
    with web_stack(tmp_path_factory.mktemp("web"), agents_concurrency=LIVE_TASKS + 10, lease_seconds=30.0) as started:
        yield started


@pytest.mark.nightly
def test_a_task_of_ten_thousand_steps_is_shown_and_scrolls(
    web: WebStack, open_watched: OpenContext, browser: Browser
) -> None:
    task = write_long_task(web)
    last = len(task.history()) - 1
    assert last >= LONG_TASK_STEPS
    page = open_watched().page
    with measured(browser, page) as loading:
        open_view(page, web.url, f"#/tasks/{task.task_id}/steps/{last}", "task")
        step(page, last).wait_for(timeout=300_000)
    elements = page.evaluate("document.querySelectorAll('*').length")
    with measured(browser, page) as scrolling:
        frames = scroll(scrolling_box(page), 5)
    print(f"\n{last + 1} steps: loaded with {loading}; {elements} elements; {heap_megabytes(page):.0f} MB of objects")
    print(f"scrolling: {frames}; {scrolling}")
    for _ in range(ZOOMS):
        page.get_by_role("button", name="Zoom in").click()
    lanes = page.wait_for_selector(".lanes-box")
    assert lanes.evaluate("box => box.scrollWidth > 10 * box.clientWidth")
    with measured(browser, page) as scrolling:
        frames = scroll(lanes, 5, sideways=True)
    print(f"scrolling the lanes: {frames}; {scrolling}")
    save_picture(page, "long-task")
    assert elements < MAX_ELEMENTS


@pytest.mark.nightly
def test_fifty_live_streams_share_a_page(web: WebStack, open_watched: OpenContext, browser: Browser) -> None:
    """Measure the processor time of a list in which 50 tasks write 20 words a second each."""
    page = open_watched().page
    open_view(page, web.url, "#/", "list")
    tasks = start_live_tasks(web, LIVE_TASKS, 1_500, 50)
    for task in tasks:
        expect(page.locator(f'[data-task="{task.task_id}"]')).to_contain_text("der See.")
    with measured(browser, page) as work:
        page.wait_for_timeout(5_000)
    print(f"\n{LIVE_TASKS} live streams on {os.cpu_count()} cores: {work}")
    save_picture(page, "live-list")
    for task in tasks:
        web.wait_status(task, "completed")
        expect(page.locator(f'[data-task="{task.task_id}"]')).to_contain_text("completed")
