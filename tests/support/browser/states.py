"""The states of the web view, as a table: each prepares tasks, opens a page, and brings it into the state.

A new state is a function `(WebStack, Page) -> None` in `STATES`. The page has the light or dark scheme and its width
already. Each call makes its own tasks, or shows those that `example` has made for all.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from playwright.sync_api import Locator, Page, expect

from roboco import Task
from tests.support.browser.hostile import HOSTILE_TEXT, HOSTILE_TITLE
from tests.support.browser.page import button, open_view, step
from tests.support.browser.stack import WebStack
from tests.support.browser.teams import BOOKING, SEAT

State = Callable[[WebStack, Page], None]
EXAMPLES: Final[Mapping[str, tuple[str, str, dict[str, Any]]]] = {
    "chat": ("40 words every 1 ms", "user_turn", {"conversation": True}),
    "line": ("Write about the sea.", "completed", {}),
    "tools": ("Add up the till, and note it.", "completed", {}),
    "approval": ("Add what I owe.", "approval", {}),
    "expiring": ("Add what I owe.", "approval", {}),
    "memory": ("I drink tea.", "completed", {"context": {"user": "alice"}}),
    "guarded": ("Say something.", "completed", {}),
    "map": ("Visit the places.", "completed", {}),
    "markdown": ("Write the tide table.", "completed", {}),
    "client": ("Book a seat by the window.", "client_tool_turn", {"client_tools": [SEAT]}),
    "handoffs": ("Add, then solve.", "completed", {}),
    "delegation": ("Let the deck be swabbed.", "completed", {}),
    "goals": ("Book a table for four.", "completed", {"goals": [BOOKING]}),
    "idle": ("Book a table for two.", "goals_failed", {"goals": [BOOKING]}),
    "typed": ("Judge the sea.", "completed", {"state": {"sea": HOSTILE_TEXT}}),
    "broken": ("Ask a model that refuses.", "failed", {}),
    "limited": ("Write as long as you may.", "paused", {}),
    "hostile": (HOSTILE_TEXT, "completed", {"title": HOSTILE_TITLE}),
}
"""A task of each team: its prompt, the status in which it rests, and options."""


def run_example(web: WebStack, team: str) -> Task:
    """Return a new task of the team that rests."""
    prompt, status, options = EXAMPLES[team]
    task = web.run(team, prompt, **options)
    web.wait_status(task, status)
    return task


def example(web: WebStack, team: str) -> Task:
    """Return a task of the team that rests, the same one for each call. A state must not change it."""
    options: dict[str, Any] = {"task_id": f"example-{team}"}
    prompt, status, more = EXAMPLES[team]
    task = web.run(team, prompt, **options | more)
    web.wait_status(task, status)
    return task


def open_task(page: Page, web: WebStack, task: Task, seq: int | None = None) -> None:
    """Open the page of a task, at a step if one is given."""
    place = "" if seq is None else f"/steps/{seq}"
    open_view(page, web.url, f"#/tasks/{task.task_id}{place}", "task")


def _resting(team: str) -> State:
    """Return the state of a page of a task that rests, with all of its steps."""

    def show(web: WebStack, page: Page) -> None:
        task = example(web, team)
        open_task(page, web, task)
        step(page, len(task.history()) - 1).wait_for(state="attached")

    return show


def _running(web: WebStack, page: Page) -> None:
    task = web.run("chat", "60 words every 2 ms, then silence", title="An answer that is being written")
    open_task(page, web, task)
    expect(page.locator("[data-live] [data-text]")).to_contain_text("50 ")


def _inspected(web: WebStack, page: Page) -> None:
    open_task(page, web, example(web, "tools"), 1)
    page.locator("[data-inspector]").wait_for()


def _list(web: WebStack, page: Page) -> None:
    tasks = [example(web, team) for team in EXAMPLES]
    open_view(page, web.url, "#/", "list")
    page.locator(f'[data-task="{tasks[0].task_id}"]').first.wait_for()


def _list_answer(web: WebStack, page: Page) -> None:
    _list(web, page)
    row = page.locator(f'[data-task="{example(web, "approval").task_id}"]')
    row.locator("[data-open]").click()
    button(page, "approve").first.wait_for()


def _list_empty(web: WebStack, page: Page) -> None:
    open_view(page, web.url, "#/?text=no-such-title", "list")
    expect(page.locator("main")).to_contain_text("No task meets")


def _unknown_task(web: WebStack, page: Page) -> None:
    open_view(page, web.url, "#/tasks/no-such-task", "task")
    page.get_by_role("alert").first.wait_for()


def _refused(web: WebStack, page: Page) -> None:
    task = web.run("guarded", "Say something rude.", title="A message that guards refuse")
    web.wait_status(task, "completed")
    open_task(page, web, task)
    expect(step(page, 2)).to_contain_text("it is rude")


def _raw(web: WebStack, page: Page) -> None:
    _resting("markdown")(web, page)
    button(page, "raw").click()
    expect(page.locator("main.raw")).to_be_visible()


def _memory(web: WebStack, page: Page) -> None:
    example(web, "memory")
    dialog = open_operation(page, web, "get_memory", of="context.user", value="alice")
    expect(dialog.locator("tbody tr")).to_have_count(6)


def _operations(web: WebStack, page: Page) -> None:
    open_view(page, web.url, "#/operations", "operations")
    expect(page.get_by_role("region", name="All operations")).to_contain_text("Report usage")


def open_operation(page: Page, web: WebStack, name: str, **values: str) -> Locator:
    """Open an operation with these values of its fields, run it if it is a read, and return its dialog."""
    open_view(page, web.url, f"#/operations/{name}?{urlencode(values)}", "operations")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    if (show := dialog.locator("button.primary[data-action=run]")).count():
        show.click()
    return dialog


def _usage(web: WebStack, page: Page) -> None:
    example(web, "tools")
    dialog = open_operation(page, web, "report_usage", by="day,team,model,tool")
    expect(dialog.get_by_role("table")).to_be_visible()


def _erasures(web: WebStack, page: Page) -> None:
    example(web, "tools")
    dialog = open_operation(page, web, "erase_tasks", team="tools", reason="asked by the customer")
    button(page, "run").click()
    expect(button(page, "confirm")).to_be_visible()
    expect(dialog.get_by_role("table")).to_be_visible()


def _what_if(web: WebStack, page: Page) -> None:
    task = example(web, "line")
    what_if = task.what_if(1, what_if="5ee0", runs=2)
    dialog = open_operation(page, web, "get_what_if", task_id=task.task_id, what_if=what_if.what_if)
    expect(dialog.locator("tbody tr")).to_have_count(3)


STATES: Final[Mapping[str, State]] = {
    **{f"task-{team}": _resting(team) for team in EXAMPLES},
    "task-running": _running,
    "task-inspector": _inspected,
    "task-refused": _refused,
    "task-raw": _raw,
    "task-unknown": _unknown_task,
    "list": _list,
    "list-answer": _list_answer,
    "list-empty": _list_empty,
    "operations": _operations,
    "operations-memory": _memory,
    "operations-usage": _usage,
    "operations-erasures": _erasures,
    "operations-what-if": _what_if,
}
"""The states by the names of their pictures."""
EXPECTED_PROBLEMS: Final[Mapping[str, str]] = {"task-unknown": r"status of 404"}
"""Patterns of console errors that belong to a state."""


def states_named(pattern: str) -> dict[str, State]:
    """Return the states whose names contain a match of the pattern."""
    return {name: state for name, state in STATES.items() if re.search(pattern, name)}
