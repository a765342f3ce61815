"""A task of 10,000 steps in the web view."""

from collections.abc import Iterator

import pytest

from tests.support.browser.fixtures import OpenContext
from tests.support.browser.long_task import LONG_TASK_STEPS, write_long_task
from tests.support.browser.page import open_view, step
from tests.support.browser.stack import WebStack, web_stack

pytestmark = [pytest.mark.slow, pytest.mark.workers]

ZOOMS = 12
"""Clicks that enlarge the lanes about a hundred times."""
MAX_ELEMENTS = 5_000
"""Elements of the page of a long task: a list of all steps would have ten times as many."""


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebStack]:
    """Yield a deployment."""
    with web_stack(tmp_path_factory.mktemp("web")) as started:
        yield started


@pytest.mark.nightly
def test_a_task_of_ten_thousand_steps_is_shown_and_scrolls(web: WebStack, open_watched: OpenContext) -> None:
    task = write_long_task(web)
    last = len(task.history()) - 1
    assert last >= LONG_TASK_STEPS
    page = open_watched().page
    open_view(page, web.url, f"#/tasks/{task.task_id}/steps/{last}", "task")
    step(page, last).wait_for(timeout=300_000)
    elements = page.evaluate("document.querySelectorAll('*').length")
    for _ in range(ZOOMS):
        page.get_by_role("button", name="Zoom in").click()
    lanes = page.wait_for_selector(".lanes-box")
    assert lanes.evaluate("box => box.scrollWidth > 10 * box.clientWidth")
    assert elements < MAX_ELEMENTS
