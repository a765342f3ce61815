"""Receipt: the time at which a task accepted an item, and its effect."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal

from roboco.domain.history.interruption import InterruptionEffect, interrupted_step
from roboco.domain.history.step import INTERRUPTION, TaskStep
from roboco.domain.inbox.item import Interrupt, interrupts_work
from roboco.engine.accept.accept_item import stored_item
from roboco.engine.engine import WorkspaceRecords
from roboco.errors import NotFound


@dataclass(frozen=True)
class Receipt:
    """An item that was sent to a task, and its effect so far. Times are UTC."""

    item_id: str
    """The id of the item."""
    requested_at: datetime
    """The time at which the item was accepted."""
    applied_at_seq: int | None = None
    """The position of the step that the item became, or None if no worker has applied it yet.

    For a pause, step or resume, the position from which it no longer counts.
    """
    seen_at: datetime | None = None
    """The time at which the worker noticed the request, if the item ended a model's reply."""
    closed_at: datetime | None = None
    """The time at which the worker closed the connection to the model, if the item ended a reply."""
    chunks_after: int | None = None
    """The number of chunks that arrived after the request, if the item ended a reply."""
    expired: bool = False
    """True if the task ended before it could apply the item."""
    by: str | None = None
    """The caller that sent the item, if it was named. None in a receipt that a control has returned at once."""
    effect: InterruptionEffect | Literal["already_waiting"] | None = None
    """The effect of an interruption without a message, once it is applied: the work that it has ended, if any."""


def find_receipt(workspace: WorkspaceRecords, task_id: str, item_id: str) -> Receipt:
    """Return the receipt of an item as of now. Raises UsageError if the task has no item with this id."""
    item = stored_item(workspace, task_id, item_id)
    if item is None:
        raise NotFound(f"task {task_id!r} has no item with the id {item_id!r}")
    if item.applied_at_seq is None:
        if not workspace.summaries.is_closed(task_id):
            return Receipt(item_id, item.created_at, by=item.by)
        item = stored_item(workspace, task_id, item_id) or item  # it may have been applied as the task ended
    if item.applied_at_seq is None:
        return Receipt(item_id, item.created_at, expired=True, by=item.by)
    steps = list(workspace.histories.read(task_id, max(0, item.applied_at_seq - SEARCHED_STEPS)))
    taken = next((step for step in steps if step.metadata.get("item_id") == item_id), None)
    if taken is None:
        effect: Literal["already_waiting"] | None = "already_waiting" if isinstance(item, Interrupt) else None
        return Receipt(item_id, item.created_at, item.applied_at_seq, by=item.by, effect=effect)
    ended = _ended_reply(steps, taken) if interrupts_work(item) else {}
    return Receipt(
        item_id,
        item.created_at,
        taken.seq,
        _time(ended.get("seen_at")),
        _time(ended.get("closed_at")),
        ended.get("chunks_after"),
        by=item.by,
        effect=taken.metadata.get(INTERRUPTION),
    )


def latest_receipt(read: Callable[[str], Receipt], receipt: Receipt) -> Receipt:
    """Return the receipt of an accepted item as of now. `read` returns it by the id of the item.

    A stop that meets a task that has ended leaves no item: its receipt is expired.
    """
    try:
        return read(receipt.item_id)
    except NotFound:
        return replace(receipt, expired=True)


def is_final(receipt: Receipt) -> bool:
    """Return True if the item is applied, or will never be."""
    return receipt.applied_at_seq is not None or receipt.expired


SEARCHED_STEPS: Final = 64
"""Steps before the recorded position that are searched: a worker may record the position of an item late."""


def _ended_reply(steps: list[TaskStep], taken: TaskStep) -> dict[str, Any]:
    """Return how the reply ended that was interrupted just before this step, or {} if there was none."""
    earlier = [step for step in steps if step.seq < taken.seq]
    before = interrupted_step(earlier) if taken.is_interruption else next(reversed(earlier), None)
    receipt = before.metadata.get("receipt") if before is not None else None
    return receipt if isinstance(receipt, dict) else {}


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
