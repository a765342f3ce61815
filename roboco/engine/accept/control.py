"""control: accept a user's message to a task, an interruption, a pause, a step, a resumption, and other limits.

A pause stays in the inbox as long as it counts. The item that ends a pause names it, so no clocks are compared. So a
late repetition of a resumption does not end a pause that was set after the resumption was first sent.
"""

from typing import Literal

from roboco.domain.ids import check_task_id
from roboco.domain.inbox.item import Interrupt, Item, LimitChange, Pause, Resume, UserMessage
from roboco.domain.limits import LimitOverrides
from roboco.engine.accept.accept_item import IdLookup, accept_item, check_open, stored_item, stored_pauses
from roboco.engine.accept.checks import check_limits
from roboco.engine.engine import Engine, TaskStores
from roboco.engine.record import recover
from roboco.errors import StateConflict, UsageError

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


def pause(engine: Engine, task_id: str, item_id: str, by: str | None = None) -> None:
    """Pause the task after the step in progress. Raise UsageError if the task has ended."""
    if not _already_accepted(engine, task_id, item_id):
        pause_item = Pause(item_id=item_id, created_at=engine.now(), by=by)
        accept_item(engine, task_id, pause_item, lookup="none found")


def step(engine: Engine, task_id: str, item_id: str, by: str | None = None) -> None:
    """Let the task make one step, or finish the one in progress, and pause it. Raise UsageError if it has ended."""
    if _already_accepted(engine, task_id, item_id):
        return
    task = recover.load_task(engine, task_id)
    until = 1 if task is None else task.position.seq + 1
    superseded = tuple(one.item_id for one in stored_pauses(engine.workspace, task_id))
    pause_item = Pause(item_id=item_id, created_at=engine.now(), by=by, until=until, supersedes=superseded)
    accept_item(engine, task_id, pause_item, lookup="none found")


def resume(engine: Engine, task_id: str, item_id: str, by: str | None = None) -> None:
    """Resume a paused task. Change nothing if it is not paused. Raise UsageError if the task has ended."""
    if not _already_accepted(engine, task_id, item_id):
        superseded = tuple(one.item_id for one in stored_pauses(engine.workspace, task_id))
        resume_item = Resume(item_id=item_id, created_at=engine.now(), by=by, supersedes=superseded)
        accept_item(engine, task_id, resume_item, lookup="none found")


def _already_accepted(engine: Engine, task_id: str, item_id: str) -> bool:
    """Return True if the item was accepted before, and announce it again in case that message was lost."""
    check_task_id(task_id)
    before = stored_item(engine.workspace, task_id, item_id)
    if before is None:
        check_open(engine, task_id)
        return False
    accept_item(engine, task_id, before)
    return True


def set_limits(engine: Engine, task_id: str, limits: LimitOverrides, item_id: str, by: str | None = None) -> None:
    """Replace these limits of the task. A task that has paused at one of them continues.

    Raise UsageError if the task has ended, or if its team lacks a named agent or tool.
    """
    if stored_item(engine.workspace, task_id, item_id) is None:
        check_open(engine, task_id)
        if not limits.overrides():
            raise UsageError(f"limits: name at least one; possible are {', '.join(LimitOverrides.model_fields)}")
        check_limits(engine.workspace, task_id, limits)
    change = LimitChange(item_id=item_id, created_at=engine.now(), by=by, limits=limits.overrides())
    accept_item(engine, task_id, change)
