"""The operations page: a deployment as it is, and each operation that an operator has on it."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from roboco.domain.dead_letter import dead_letter_of_lost_work
from tests.browser.test_controls import ENDLESS, tab_to
from tests.support.browser.axe import assert_accessible
from tests.support.browser.chromium import HEIGHTS, SCHEMES, Scheme
from tests.support.browser.fixtures import OpenContext
from tests.support.browser.hostile import HOSTILE_TEXT
from tests.support.browser.page import assert_no_injection, assert_no_sideways_scroll, button, open_view
from tests.support.browser.stack import WebStack
from tests.support.browser.states import example, open_operation, open_task, run_example

pytestmark = [pytest.mark.workers, pytest.mark.slow]

REFUSED = r"status of 4\d\d"
"""The pattern of a console error of a request that is refused."""


def field(page: Page, name: str) -> Locator:
    """Return a field of the open operation."""
    return page.get_by_role("dialog").locator(f'[name="{name}"]')


def row(page: Page, key: str) -> Locator:
    """Return a row of a table by its key."""
    return page.locator(f'[data-row="{key}"]')


def perform(page: Page) -> None:
    """Send the open operation, and wait until it is done."""
    button(page, "run").click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_have_text("Done.")


@pytest.mark.parametrize("width", [1440, 390])
def test_an_operator_sees_the_deployment_and_dismisses_a_dead_letter(
    web: WebStack, open_watched: OpenContext, width: int
) -> None:
    engine = web.stack.orchestrator._engine
    lost = dead_letter_of_lost_work("turn", f"gone-{width}", "writer, step 1", HOSTILE_TEXT, 5, engine.now())
    engine.tasks.dead_letters.add(lost)
    page = open_watched(width=width).page
    open_view(page, web.url, "#/operations", "operations")
    for queue in ("coordinator", "agents", "tools"):
        expect(page.get_by_role("region", name="Queues")).to_contain_text(f"roboco.{queue}")
        expect(page.locator(".facts")).to_contain_text(re.compile(rf"[1-9]\d* live in {queue}"))
    letter = row(page, lost.letter_id)
    expect(letter).to_contain_text("writer, step 1")
    expect(letter.get_by_role("link", name="Requeue")).to_have_count(0)
    assert_no_injection(page)
    assert_no_sideways_scroll(page)
    letter.get_by_role("link", name="Show").click()
    expect(page.get_by_role("dialog")).to_contain_text("<script>window.canary = 1")
    assert_no_injection(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    letter.get_by_role("link", name="Dismiss").click()
    button(page, "close").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    letter.get_by_role("link", name="Dismiss").press("Enter")
    expect(field(page, "letter_id")).to_have_value(lost.letter_id)
    perform(page)
    button(page, "close").press("Enter")
    expect(letter).to_have_count(0)
    assert engine.tasks.dead_letters.get(lost.letter_id) is None


def test_an_operator_without_a_mouse_switches_a_team_off_and_on(web: WebStack, open_watched: OpenContext) -> None:
    page = open_watched(width=390).page
    open_view(page, web.url, "#/operations", "operations")
    tab_to(page, 'a[href*="switch_off"]')
    page.keyboard.press("Enter")
    tab_to(page, 'dialog [name="target"]')
    page.keyboard.type("team:no-such-team")
    tab_to(page, 'dialog [name="reason"]')
    page.keyboard.insert_text(HOSTILE_TEXT[:200])
    tab_to(page, 'dialog [data-action="run"]')
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_role("status")).to_have_text("Done.")
    assert_no_injection(page)
    page.keyboard.press("Escape")
    expect(row(page, "team:no-such-team")).to_be_visible()
    assert [one.target for one in web.stack.orchestrator.operator.switches()] == ["team:no-such-team"]
    assert_no_injection(page)
    assert_no_sideways_scroll(page)
    row(page, "team:no-such-team").get_by_role("link", name="Switch on").click()
    perform(page)
    button(page, "close").click()
    expect(page.get_by_role("region", name="Switches")).to_contain_text("Nothing is switched off.")
    assert web.stack.orchestrator.operator.switches() == []


def test_a_task_is_exported(web: WebStack, light_page: Page, tmp_path: Path) -> None:
    task = run_example(web, "line")
    open_task(light_page, web, task)
    with light_page.expect_download() as download:
        light_page.get_by_role("link", name="Export").click()
    tar = tmp_path / "task.tar"
    download.value.save_as(tar)
    assert tar.read_bytes()[257:262] == b"ustar"


def test_tasks_that_a_filter_shows_are_counted_and_then_erased(web: WebStack, light_page: Page) -> None:
    tasks = [web.run("line", "Write.", title="erase these") for _ in range(2)]
    other = run_example(web, "line")
    for task in tasks:
        web.wait_status(task, "completed")
    open_view(light_page, web.url, "#/?text=erase+these", "list")
    light_page.get_by_role("link", name="erase …").click()
    field(light_page, "reason").fill("asked by the customer")
    button(light_page, "run").click()
    expect(row(light_page, tasks[0].task_id)).to_contain_text("matched")
    assert other.summary().status == "completed"
    expect(button(light_page, "confirm")).to_have_text("Erase 2 tasks")
    button(light_page, "confirm").click()
    expect(light_page.get_by_role("dialog").get_by_role("status")).to_have_text("Done.")
    for task in tasks:
        assert web.stack.orchestrator.operator.erase(task.task_id, timeout=60).reason == "asked by the customer"
    assert other.summary().status == "completed"


def test_a_bulk_control_goes_on_after_an_error_and_shows_what_failed(web: WebStack, open_watched: OpenContext) -> None:
    tasks = [web.run("chat", ENDLESS, title="one of three") for _ in range(3)]
    watched = open_watched()
    watched.watch.allow(REFUSED, r"status of 503")
    page = watched.page
    cursors: list[str] = []
    times: list[str] = []

    def answer(route: Route) -> None:
        body = route.request.post_data_json
        if body["dry_run"]:
            counted = route.fetch()
            times.append(counted.json()["until"])
            route.fulfill(response=counted)
            return
        assert body["until"] == times[0]
        cursors.append(f"{body.get('cursor', '')}/{route.request.headers['idempotency-key']}")
        if len(cursors) == 2:
            route.fulfill(status=503, json={"detail": "Redis does not answer", "remedy": "repeat it"})
            return
        task_id = tasks[len(cursors) - 1].task_id
        outcome = {"task_id": task_id, "item_id": "i", "outcome": "failed", "cause": "<b>late</b>"}
        cursor = "" if len(cursors) == 3 else "next"
        found = {"bulk_id": "b", "until": times[0], "counts": {}, "outcomes": [outcome], "complete": True}
        route.fulfill(json={**found, "cursor": cursor})

    page.route("**/v1/operations/bulk", answer)
    open_view(page, web.url, "#/?text=one+of+three", "list")
    page.get_by_role("link", name="stop …").click()
    expect(field(page, "control")).to_have_value('"stop"')
    field(page, "reason").fill("too many")
    button(page, "run").click()
    expect(button(page, "confirm")).to_have_text("stop 3 tasks")
    button(page, "confirm").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("alert")).to_contain_text("Redis does not answer · repeat it")
    dialog.get_by_role("button", name="Try again").click()
    expect(dialog.get_by_role("status")).to_have_text("Done.")
    assert [one.partition("/")[0] for one in cursors] == ["", "next", "next"]
    assert len({one.partition("/")[2] for one in cursors}) == 1
    expect(dialog.get_by_role("region", name="outcomes").locator("tbody tr")).to_have_count(2)
    expect(dialog.locator("dl")).to_contain_text("failed2")
    expect(row(page, tasks[0].task_id)).to_contain_text("<b>late</b>")
    assert_no_injection(page)
    for task in tasks:
        task.stop()


@pytest.mark.parametrize(("scheme", "width"), list(zip(SCHEMES, HEIGHTS, strict=True)))
def test_operations_are_accessible(web: WebStack, open_watched: OpenContext, scheme: Scheme, width: int) -> None:
    example(web, "line")
    page = open_watched(scheme=scheme, width=width).page
    open_view(page, web.url, "#/operations", "operations")
    expect(page.get_by_role("region", name="All operations")).to_contain_text("Report usage")
    assert_accessible(page)
    assert_no_sideways_scroll(page)
    for name, values in {"report_usage": {"by": "day,team,model"}, "control_tasks": {"control": "retry"}}.items():
        dialog = open_operation(page, web, name, **values)
        expect(dialog.locator("table, form").last).to_be_visible()
        assert_accessible(page)
        assert_no_sideways_scroll(page)


def test_a_link_from_elsewhere_runs_nothing(web: WebStack, light_page: Page) -> None:
    sent: list[str] = []
    light_page.on("request", lambda request: sent.append(request.url) if "v1/usage" in request.url else None)
    open_view(light_page, web.url, "#/operations/report_usage?by=team", "operations")
    expect(button(light_page, "run")).to_be_enabled()
    assert sent == []
    button(light_page, "run").click()
    expect(light_page.get_by_role("dialog").locator("details")).not_to_have_attribute("open", "")
    assert len(sent) == 1


def test_a_memory_is_searched_leads_to_its_step_and_forgets_an_entry(web: WebStack, light_page: Page) -> None:
    task = web.run("memory", "I drink tea.", context={"user": "carol"})
    web.wait_status(task, "completed")
    open_task(light_page, web, task)
    light_page.get_by_role("link", name="carol").click()
    rows = light_page.get_by_role("dialog").locator("tbody tr")
    expect(rows).to_have_count(6)
    light_page.get_by_label("Search").fill("OOLONG")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("She drinks oolong tea. <script>")
    assert_no_injection(light_page)
    rows.get_by_role("link", name="step").click()
    expect(light_page.locator('[data-inspector="1"]')).to_be_visible()
    light_page.go_back()
    button(light_page, "run").click()
    light_page.get_by_label("Search").fill("oolong")
    rows.get_by_role("link", name="Forget").click()
    perform(light_page)
    left = web.stack.orchestrator.operator.memory("context.user", "carol").entries
    assert {entry.text.split()[2] for entry in left} == {"green", "black", "white", "herbal", "no"}
