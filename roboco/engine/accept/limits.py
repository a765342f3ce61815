"""limits: change the limits of a task, in either direction."""

from roboco.domain.inbox.item import LimitChange
from roboco.domain.limits import LimitOverrides
from roboco.engine.accept.accept_item import accept_item, check_open, stored_item
from roboco.engine.accept.check_limits import check_limits
from roboco.engine.engine import Engine
from roboco.errors import UsageError


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
