"""send: accept a user's message to a task, or an interruption without a message."""

from typing import Literal

from roboco.domain.ids import check_task_id
from roboco.domain.inbox.item import Interrupt, Item, UserMessage
from roboco.engine.accept.accept_item import IdLookup, accept_item, check_open, stored_item
from roboco.engine.engine import Engine, TaskStores
from roboco.errors import StateConflict

IfBusy = Literal["queue", "interrupt", "reject"]
"""The treatment of a message that arrives while an agent or a tool is busy."""


def accept_message(
    engine: Engine, task_id: str, message: UserMessage, if_busy: IfBusy | None = None, lookup: IdLookup = "needed"
) -> None:
    """Accept the message. Raise UsageError if the task has ended, or if it is busy and the message may not wait.

    Without `if_busy`, the team decides. Cost: that of `accept_item`, and a read of the team by the first message that
    this process accepts for the task.
    """
    check_task_id(task_id)
    before = stored_item(engine.workspace, task_id, message.item_id) if lookup == "needed" else None
    if isinstance(before, UserMessage):  # a repetition: the first decision counts
        accept_item(engine, task_id, message.model_copy(update={"interrupts": before.interrupts}))
        return
    if (team := engine.workspace.frozen_teams.find(task_id)) is not None:
        if_busy = if_busy or team.if_busy
        if if_busy == "reject":
            _reject_if_busy(engine.tasks, task_id)
    message = message.model_copy(update={"interrupts": if_busy == "interrupt"})
    accept_item(engine, task_id, message, lookup=_after_lookup(before, lookup))


def accept_interrupt(
    engine: Engine, task_id: str, item_id: str, by: str | None = None, lookup: IdLookup = "needed"
) -> None:
    """Accept an interruption without a message. Raise UsageError if the task has ended or is unknown."""
    check_task_id(task_id)
    before = stored_item(engine.workspace, task_id, item_id) if lookup == "needed" else None
    if before is None:
        check_open(engine, task_id)
    interrupt = Interrupt(item_id=item_id, created_at=engine.now(), by=by)
    accept_item(engine, task_id, interrupt, lookup=_after_lookup(before, lookup))


def _after_lookup(before: Item | None, lookup: IdLookup) -> IdLookup:
    """Return what is known of an id that was looked up, unless that was not needed."""
    if lookup == "needed":
        return "needed" if before is not None else "none found"
    return lookup


def _reject_if_busy(tasks: TaskStores, task_id: str) -> None:
    task = tasks.task_store.load(task_id, 1)
    if task is not None and not task.position.status.waiting and not task.position.status.ended:
        raise StateConflict(
            f"task {task_id!r} is {task.position.status} and takes no message while its team is busy; "
            "send it when the task waits, or let the message queue or interrupt"
        )
