"""The operations page: a deployment as it is, and dead letters that an operator requeues and dismisses."""

import re

import pytest
from playwright.sync_api import expect

from roboco.domain.dead_letter import dead_letter_of_lost_work
from tests.support.browser.fixtures import OpenContext
from tests.support.browser.hostile import HOSTILE_TEXT
from tests.support.browser.page import assert_no_injection, assert_no_sideways_scroll, open_view
from tests.support.browser.stack import WebStack

pytestmark = [pytest.mark.workers, pytest.mark.slow]


@pytest.mark.parametrize("width", [1440, 390])
def test_an_operator_sees_the_deployment_and_dismisses_a_dead_letter(
    web: WebStack, open_watched: OpenContext, width: int
) -> None:
    engine = web.stack.orchestrator._engine
    lost = dead_letter_of_lost_work("turn", f"gone-{width}", "writer, step 1", HOSTILE_TEXT, 5, engine.now())
    engine.dead_letters.add(lost)
    page = open_watched(width=width).page
    open_view(page, web.url, "#/operations", "operations")
    for queue in ("coordinator", "agents", "tools"):
        expect(page.get_by_role("region", name="Queues")).to_contain_text(f"roboco.{queue}")
        expect(page.locator(".facts")).to_contain_text(re.compile(rf"[1-9]\d* live in {queue}"))
    row = page.locator(f'[data-letter="{lost.letter_id}"]')
    expect(row).to_contain_text("writer, step 1")
    expect(row.get_by_role("button", name="Requeue")).to_be_disabled()
    assert_no_injection(page)
    assert_no_sideways_scroll(page)
    row.get_by_role("button", name="Dismiss").click()
    page.get_by_role("button", name="Cancel").click()
    expect(row).to_be_visible()
    row.get_by_role("button", name="Dismiss").press("Enter")
    page.locator("[data-confirm]").press("Enter")
    expect(row).to_have_count(0)
    expect(page.locator("[data-banner=done]")).to_have_text(f"Dismissed: {lost.letter_id}")
    assert engine.dead_letters.get(lost.letter_id) is None


def test_an_operator_switches_a_team_off_and_on(web: WebStack, open_watched: OpenContext) -> None:
    page = open_watched(width=390).page
    open_view(page, web.url, "#/operations", "operations")
    page.get_by_role("textbox", name="What to switch off").fill("team:no-such-team")
    page.get_by_role("textbox", name="Reason").fill(HOSTILE_TEXT[:200])
    page.get_by_role("button", name="Switch off").click()
    region = page.get_by_role("region", name="Switches")
    expect(region).to_contain_text("team:no-such-team")
    assert [one.target for one in web.stack.orchestrator.switches()] == ["team:no-such-team"]
    assert_no_injection(page)
    assert_no_sideways_scroll(page)
    region.get_by_role("button", name="Switch on").click()
    expect(region).to_contain_text("Nothing is switched off.")
    assert web.stack.orchestrator.switches() == []
