"""Receipt: what has become of something that was sent to a task."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from roboco.domain.history.step import TaskStep
from roboco.domain.paths import open_path
from roboco.engine.engine import Engine
from roboco.engine.intake.accept import stored
from roboco.errors import UsageError


@dataclass(frozen=True)
class Receipt:
    """When it was accepted, and what came of it; times are UTC.

    `taken_at_seq` is the position of the step that it became, None as long as it is none. Where it ended a model's
    answer: when the worker saw that, when the connection to the model was closed, and how many chunks came after the
    request. It is `too_late` if the task ended before it was taken over. Of a pause, step or resume `taken_at_seq` is
    the position at which it ceased to count.
    """

    item_id: str
    requested_at: datetime
    taken_at_seq: int | None = None
    seen_at: datetime | None = None
    closed_at: datetime | None = None
    chunks_after: int | None = None
    too_late: bool = False


def find_receipt(engine: Engine, task_id: str, item_id: str) -> Receipt:
    """What has become of the item by now; UsageError if the task got none with this id."""
    item = stored(engine, task_id, item_id)
    if item is None:
        raise UsageError(f"task {task_id!r} got nothing with the item id {item_id!r}")
    if item.taken_at_seq is None:
        return Receipt(item_id, item.created_at, too_late=engine.files.get(open_path(task_id)) is None)
    steps = list(engine.histories.read(task_id, max(0, item.taken_at_seq - _BACK)))
    taken = next((step for step in steps if step.metadata.get("item_id") == item_id), None)
    if taken is None:
        return Receipt(item_id, item.created_at, item.taken_at_seq)
    told = _told_before(steps, taken.seq)
    return Receipt(
        item_id,
        item.created_at,
        taken.seq,
        _time(told.get("seen_at")),
        _time(told.get("closed_at")),
        told.get("chunks_after"),
    )


_BACK = 64
"""How many steps before the noted one are looked through: an item may be noted as taken a little late."""


def _told_before(steps: list[TaskStep], seq: int) -> dict[str, Any]:
    """What the step says that was interrupted just before this position."""
    before = next((step for step in steps if step.seq == seq - 1), None)
    receipt = before.metadata.get("receipt") if before is not None else None
    return receipt if isinstance(receipt, dict) else {}


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
