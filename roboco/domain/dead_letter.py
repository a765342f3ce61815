"""A dead letter: a message that Roboco could not deliver, or work that exhausted its attempts, with the reason."""

from datetime import datetime
from typing import Any, Literal

from roboco.domain.canonical_json import sha256, well_formed
from roboco.domain.schema import RecordModel

WorkKind = Literal["turn", "tool", "advance", "notify"]
"""A kind of work that Roboco itself announces: a turn, a tool call, a coordinator pass, a notification."""


class DeadLetter(RecordModel):
    """An undeliverable Celery message, or with `work`, a piece of work whose attempts all failed."""

    letter_id: str
    reason: str
    time: datetime
    attempts: int = 0
    """The number of failed attempts at the work."""
    work: WorkKind | None = None
    """The kind of the work, or None for a message."""
    task_id: str = ""
    detail: str = ""
    """The agent or the call of the work."""
    queue: str = ""
    """The queue from which the message was removed."""
    headers: dict[str, Any] = {}
    body: str = ""
    """The text of the message; empty for work."""
    content_type: str = "application/json"
    """The MIME type of the body."""
    content_encoding: str = "utf-8"
    truncated: bool = False
    """True if the body is truncated, or is not the body of a valid message."""
    size: int = 0
    """Bytes of the whole body. If no worker could find a body in the message, bytes of the whole message."""
    digest: str = ""
    """The hexadecimal SHA-256 of the same bytes."""

    @property
    def name(self) -> str:
        """Return the name of the Celery task of the message or work, or "?"."""
        name = f"roboco.{self.work}" if self.work else self.headers.get("task")
        return name if isinstance(name, str) else "?"


def letter_id_of(*facts: str) -> str:
    """Return the id of a dead letter: the same facts have the same id."""
    return f"dead_{sha256(well_formed(chr(10).join(facts)))[:16]}"


def dead_letter_of_lost_work(
    work: WorkKind, task_id: str, detail: str, reason: str, attempts: int, time: datetime
) -> DeadLetter:
    """Return the dead letter of work whose workers were lost."""
    return DeadLetter(
        letter_id=letter_id_of(work, task_id, detail),
        reason=reason,
        time=time,
        attempts=attempts,
        work=work,
        task_id=task_id,
        detail=detail,
    )
