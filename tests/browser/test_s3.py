"""The page of a task whose workspace is in S3: its text, its files, and both again once Redis has lost all data."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect
from redis import Redis

from roboco.local.seaweed import S3Server
from tests.support.browser.page import assert_page_equals_history, button
from tests.support.browser.stack import WebStack, web_stack
from tests.support.browser.states import open_task, run_example
from tests.support.stack import s3_environment

pytestmark = [pytest.mark.slow, pytest.mark.workers]

CONTENT = "# Sums\n\n1 + 2 = 3\n"
"""The file that the team `tools` writes."""


@pytest.fixture(scope="module")
def web(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebStack]:
    """Yield a deployment over a workspace in S3."""
    with s3_environment(s3), web_stack(tmp_path_factory.mktemp("web"), s3=s3) as started:
        yield started


def expect_file(page: Page) -> None:
    """Expect that the file of the task is previewed and downloaded."""
    card = page.locator('[data-file="sums.md"]')
    card.scroll_into_view_if_needed()
    button(page, "preview").click()
    card.locator("pre").wait_for()
    assert card.locator("pre").text_content() == CONTENT
    with page.expect_download() as download:
        card.get_by_text("Download").click()
    assert download.value.suggested_filename == "sums.md"
    assert download.value.path().read_text() == CONTENT


def test_the_page_shows_a_task_of_a_workspace_in_s3_also_without_redis_data(web: WebStack, light_page: Page) -> None:
    assert web.stack.settings.workspace.startswith("s3://")
    task = run_example(web, "tools")
    open_task(light_page, web, task)
    assert_page_equals_history(light_page, task)
    expect_file(light_page)
    with Redis.from_url(web.stack.valkey.url) as redis:
        redis.flushall()
    light_page.reload()
    assert_page_equals_history(light_page, task)
    expect_file(light_page)
    expect(light_page.locator('[data-status="completed"]')).to_be_visible()
