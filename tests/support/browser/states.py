"""The tasks that tests of the web view show, and the pages that they open."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from playwright.sync_api import Locator, Page, expect

from roboco import Task
from tests.support.browser.hostile import HOSTILE_TEXT, HOSTILE_TITLE
from tests.support.browser.page import open_view
from tests.support.browser.stack import WebStack
from tests.support.browser.teams import BOOKING, SEAT

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
    """Return a task of the team that rests, the same one for each call. A test must not change it."""
    options: dict[str, Any] = {"task_id": f"example-{team}"}
    prompt, status, more = EXAMPLES[team]
    task = web.run(team, prompt, **options | more)
    web.wait_status(task, status)
    return task


def open_task(page: Page, web: WebStack, task: Task, seq: int | None = None) -> None:
    """Open the page of a task, at a step if one is given."""
    place = "" if seq is None else f"/steps/{seq}"
    open_view(page, web.url, f"#/tasks/{task.task_id}{place}", "task")


def open_operation(page: Page, web: WebStack, name: str, **values: str) -> Locator:
    """Open an operation with these values of its fields, run it if it is a read, and return its dialog."""
    open_view(page, web.url, f"#/operations/{name}?{urlencode(values)}", "operations")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    if (show := dialog.locator("button.primary[data-action=run]")).count():
        show.click()
    return dialog
