"""Controls of the web view: a person acts by mouse and keyboard, and the history has exactly that action, once."""

import signal
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from roboco import Task
from tests.support.browser.fixtures import OpenContext
from tests.support.browser.page import assert_page_equals_history, button, open_view, step
from tests.support.browser.stack import WebStack
from tests.support.browser.states import open_task, run_example
from tests.support.browser.teams import answer
from tests.support.browser.watch import OUTAGE
from tests.support.servers.model_server import Reply
from tests.support.stack import until

pytestmark = [pytest.mark.slow, pytest.mark.workers]

ENDLESS = "60 words every 5 ms, then silence"
"""A reply that never ends by itself."""


def message(page: Page) -> Locator:
    """Return the field of the next message."""
    return page.get_by_role("textbox", name="Message")


def confirm(page: Page, **fields: str) -> None:
    """Fill in fields of the open dialog by their names, and confirm it."""
    dialog = page.get_by_role("dialog")
    for name, value in fields.items():
        field = dialog.locator(f'[name="{name}"]')
        if field.evaluate("field => field.matches('select')"):
            field.select_option(label=value)
        else:
            field.fill(value)
    button(page, "confirm").click()
    expect(dialog).to_have_count(0)


def tab_to(page: Page, selector: str) -> None:
    """Press the tabulator key until this element has the focus. It may appear only after a request."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"the keyboard does not reach {selector}")


def results(task: Task) -> list[Any]:
    """Return the results and errors of all calls of the task."""
    return [result.error or result.result for step in task.history() for result in step.results]


def test_a_user_without_a_mouse_sends_interrupts_and_stops(web: WebStack, light_page: Page) -> None:
    task = run_example(web, "chat")
    open_task(light_page, web, task)
    keyboard = light_page.keyboard
    tab_to(light_page, 'textarea[aria-label="Message"]')
    keyboard.type(ENDLESS)
    keyboard.press("Enter")
    expect(light_page.locator("[data-live] [data-text]")).to_contain_text("50 ")
    tab_to(light_page, '[data-action="interrupt"]')
    keyboard.press("Enter")
    web.wait_status(task, "user_turn")
    expect(light_page.locator('[data-status="user_turn"]')).to_be_visible()
    tab_to(light_page, '[data-action="stop"]')
    keyboard.press("Enter")
    tab_to(light_page, 'dialog [name="reason"]')
    keyboard.type("done")
    tab_to(light_page, 'dialog [data-action="confirm"]')
    keyboard.press("Enter")
    web.wait_status(task, "cancelled")
    assert task.summary().reason.endswith("done")
    assert_page_equals_history(light_page, task)


def test_pause_step_and_resume(web: WebStack, light_page: Page) -> None:
    paused = threading.Event()
    web.model.script(lambda request: replace(answer(request), held_until=paused))
    try:
        task = web.run("line", "60 words every 20 ms")
        open_task(light_page, web, task)
        with light_page.expect_response("**/pause"):
            button(light_page, "pause").click()
    finally:
        paused.set()
        web.model.script(answer)
    web.wait_status(task, "paused")
    before = len(task.history())
    button(light_page, "step").click()
    web.wait_steps(task, before + 1)
    web.wait_status(task, "paused")
    button(light_page, "resume").click()
    web.wait_status(task, "completed")
    assert_page_equals_history(light_page, task)


def test_a_call_of_a_sub_task_is_approved_on_the_page_of_its_task(web: WebStack, light_page: Page) -> None:
    task = web.run("asking", "Have it added.")
    open_task(light_page, web, task)
    button(light_page, "approve").first.click()
    web.wait_status(task, "completed")
    [result] = results(task)
    assert results(web.stack.orchestrator.task(result["task_id"])) == [5]
    assert_page_equals_history(light_page, task)


def test_two_users_who_approve_the_same_call_run_it_once(web: WebStack, open_watched: OpenContext) -> None:
    """The second one learns that the call is decided, and has no error that it cannot understand.

    Both requests are held until both users have clicked, since the button vanishes with the first decision.
    """
    task = run_example(web, "approval")
    users = [open_watched() for _ in range(2)]
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    for user in users:
        user.watch.allow("status of 409")
        user.page.route("**/calls/**", hold)
        open_task(user.page, web, task)
    for user in users:
        with user.page.expect_request("**/calls/**"):
            button(user.page, "approve").first.click()
    until(lambda: users[0].page.wait_for_timeout(50) or len(held) == 2, 60, "two held requests")
    for request in held:
        request.continue_()
    web.wait_status(task, "completed")
    assert results(task) == [5]
    for user in users:
        assert_page_equals_history(user.page, task)


def test_a_failed_task_is_retried_in_a_new_one_to_which_its_page_links(web: WebStack, light_page: Page) -> None:
    web.model.fail_next(1, Reply(status=400, text="the model refuses"))
    task = web.run("line", "Write about the sea.")
    web.wait_status(task, "failed")
    open_task(light_page, web, task)
    expect(light_page.locator('main [data-status="failed"]')).to_be_visible()
    button(light_page, "retry").click()
    confirm(light_page, reason="it answers <b>again</b>")
    expect(light_page.locator('main [data-status="completed"]')).to_be_visible()
    new = web.stack.orchestrator.task(task.summary().retried_as)
    assert_page_equals_history(light_page, new)
    open_task(light_page, web, task)
    light_page.get_by_role("link", name="Retried").click()
    expect(light_page.locator('main [data-status="completed"]')).to_be_visible()
    assert_page_equals_history(light_page, new)


def test_a_message_that_is_sent_while_the_gateway_restarts_arrives_once(
    web: WebStack, open_watched: OpenContext
) -> None:
    watched = open_watched()
    watched.watch.allow(*OUTAGE)
    task = run_example(web, "chat")
    open_task(watched.page, web, task)
    step(watched.page, 1).wait_for()
    message(watched.page).fill("Is anyone there?")
    web.gateway.end(signal.SIGKILL)
    button(watched.page, "send").click()
    watched.page.get_by_role("region", name="Controls").get_by_role("alert").wait_for()
    web.gateway.start()
    button(watched.page, "send").click()
    web.wait_steps(task, 4)
    web.wait_status(task, "user_turn")
    assert [step.text for step in task.history()].count("Is anyone there?") == 1
    assert_page_equals_history(watched.page, task)


def test_an_operator_stops_all_tasks_that_a_filter_shows(web: WebStack, light_page: Page) -> None:
    tasks = [web.run("chat", ENDLESS, title="one of two") for _ in range(2)]
    other = run_example(web, "chat")
    open_view(light_page, web.url, "#/?text=one+of+two", "list")
    for task in tasks:
        expect(light_page.locator(f'[data-task="{task.task_id}"]')).to_be_visible()
    light_page.get_by_role("link", name="stop …").click()
    light_page.locator('dialog [name="reason"]').fill("too many")
    button(light_page, "run").click()
    expect(button(light_page, "confirm")).to_have_text("stop 2 tasks")
    button(light_page, "confirm").click()
    expect(light_page.get_by_role("dialog").get_by_role("status")).to_have_text("Done.")
    for task in tasks:
        web.wait_status(task, "cancelled")
        assert task.summary().reason.endswith("too many")
    assert other.summary().status == "user_turn"
