"""Receipts as sentences: the effect of a message that interrupts."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from roboco.client.receipt import Receipt

_EFFECTS = {
    "reply_ended": "the reply has ended",
    "calls_closed": "the open calls are closed",
    "turn_replaced": "the turn was ended before its text",
    "nothing_running": "no agent and no tool was at work",
    "already_waiting": "nothing was running",
}
"""The effects of an interruption without a message as parts of a sentence."""


def describe_effect(receipt: Receipt, task_id: str) -> str:
    """Return the effect of an interruption of the task, with or without a message."""
    if receipt.expired:
        return f"{task_id} has ended before it could apply this"
    if receipt.applied_at_seq is None:
        return f"{task_id} has accepted it, and no worker has applied it yet"
    if receipt.effect is not None and receipt.seen_at is None:
        return f"{_EFFECTS[receipt.effect]}; continue with: roboco send {task_id} MESSAGE"
    if receipt.seen_at is None:
        return f"it is step {receipt.applied_at_seq} of {task_id}; no agent was speaking"
    return f"interrupted {task_id}: {describe_reply_end(receipt)}"


def describe_reply_end(receipt: Receipt) -> str:
    """Return how the worker ended the reply of the agent that was speaking."""
    seen = "" if receipt.seen_at is None else f"seen after {_delay(receipt.requested_at, receipt.seen_at)}, "
    return seen + _connection_end(receipt.requested_at, receipt.closed_at, receipt.chunks_after)


def describe_connection_end(record: Mapping[str, Any]) -> str:
    """Return how the connection to the model ended, from the receipt of an event, or "" if no agent was speaking."""
    if not record:
        return ""
    return _connection_end(
        _parse_time(record.get("requested_at")), _parse_time(record.get("closed_at")), record.get("chunks_after")
    )


def _connection_end(requested_at: datetime | None, closed_at: datetime | None, chunks: int | None) -> str:
    closed = "connection not closed yet"
    if closed_at is not None:
        closed = "connection closed" + ("" if requested_at is None else f" after {_delay(requested_at, closed_at)}")
    return f"{closed}, {chunks or 0} {'chunk' if chunks == 1 else 'chunks'} came after"


def _delay(requested_at: datetime, then: datetime) -> str:
    seconds = max(0.0, (then - requested_at).total_seconds())
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _parse_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
