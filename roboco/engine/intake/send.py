"""send: accept a user's message to a task."""

from typing import Literal

from roboco.domain.ids import check_task_id
from roboco.domain.inbox.item import UserMessage
from roboco.domain.paths import team_path
from roboco.engine.engine import Engine
from roboco.engine.intake.accept_item import accept_item, stored_item
from roboco.errors import UsageError

IfBusy = Literal["queue", "interrupt", "reject"]
"""The treatment of a message that arrives while an agent or a tool is busy."""


def accept_message(engine: Engine, task_id: str, message: UserMessage, if_busy: IfBusy | None = None) -> None:
    """Accept the message. Raise UsageError if the task has ended, or if it is busy and the message may not wait.

    Without `if_busy`, the team decides.
    """
    check_task_id(task_id)
    before = stored_item(engine, task_id, message.item_id)
    if isinstance(before, UserMessage):  # a repetition: the first decision counts
        accept_item(engine, task_id, message.model_copy(update={"interrupts": before.interrupts}))
        return
    if engine.files.get(team_path(task_id)) is not None:
        if_busy = if_busy or engine.frozen_teams.get(task_id).if_busy
        if if_busy == "reject":
            _reject_if_busy(engine, task_id)
    accept_item(engine, task_id, message.model_copy(update={"interrupts": if_busy == "interrupt"}))


def _reject_if_busy(engine: Engine, task_id: str) -> None:
    task = engine.task_store.load(task_id, 1)
    if task is not None and not task.status.waiting and not task.status.ended:
        raise UsageError(
            f"task {task_id!r} is {task.status} and takes no message while its team is busy; "
            "send it when the task waits, or let the message queue or interrupt"
        )
