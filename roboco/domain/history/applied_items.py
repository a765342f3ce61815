"""applied_items: the inbox items that a step has applied."""

from roboco.domain.history.retry import retry_of
from roboco.domain.history.step import TaskStep


def item_ids_of(step: TaskStep) -> tuple[str, ...]:
    """Return the ids of the inbox items that the step applied, or that had expired before its retry."""
    decided = [one.get("item_id") for one in (step.metadata.get("approvals") or {}).values()]
    item_ids = [step.metadata.get("item_id"), *(step.metadata.get("resolved") or {}).values(), *decided]
    retry = retry_of(step)
    expired = () if retry is None else retry.expired_items
    return tuple(item_id for item_id in (*item_ids, *expired) if isinstance(item_id, str))
