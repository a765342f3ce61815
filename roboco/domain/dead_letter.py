"""DeadLetter: a message that is not delivered any more, or work that was lost too often, with the reason."""

from datetime import datetime
from typing import Any, Literal

from roboco.domain.canonical_json import sha256, well_formed
from roboco.domain.schema import Recorded

Work = Literal["turn", "tool", "advance", "notify"]
"""What Roboco itself announces: a turn, a tool call, a look at a task, a notice of a status."""


class DeadLetter(Recorded):
    """A Celery message as it was taken out of `queue`, or, with `work`, what was tried in vain `attempts` times.

    `body` is the message's text, `content_type` and `content_encoding` say what of; it is empty for work, whose
    `task_id` and `detail` (an agent, a call) say what it was. With `cut` the message was not kept whole, or never was
    one. `size` counts the bytes of the body (of all of it, if no worker could find a body in it), and `digest` is their
    hexadecimal SHA-256.
    """

    letter_id: str
    reason: str
    time: datetime
    attempts: int = 0
    work: Work | None = None
    task_id: str = ""
    detail: str = ""
    queue: str = ""
    headers: dict[str, Any] = {}
    body: str = ""
    content_type: str = "application/json"
    content_encoding: str = "utf-8"
    cut: bool = False
    size: int = 0
    digest: str = ""

    @property
    def name(self) -> str:
        """The Celery task that it was for, or "?"."""
        name = f"roboco.{self.work}" if self.work else self.headers.get("task")
        return name if isinstance(name, str) else "?"


def letter_id_of(*facts: str) -> str:
    """The id of a letter: the same facts again are the same letter."""
    return f"dead_{sha256(well_formed(chr(10).join(facts)))[:16]}"


def lost_work(work: Work, task_id: str, detail: str, reason: str, attempts: int, time: datetime) -> DeadLetter:
    """The letter of work whose workers were lost."""
    return DeadLetter(
        letter_id=letter_id_of(work, task_id, detail),
        reason=reason,
        time=time,
        attempts=attempts,
        work=work,
        task_id=task_id,
        detail=detail,
    )
