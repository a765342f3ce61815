"""Situation: what stands beside the history when it is decided what happens next."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from roboco.domain.history.tool_outcome import Outcome
from roboco.domain.inbox.item import Item, Message, Raise, Stop

INTERRUPTED = "the user interrupted the work"


@dataclass(frozen=True)
class Situation:
    """What stands beside the history: inbox in order, results so far, seconds since the task was submitted or forked.

    `exhausted` says why no further attempt is made, at the pending turn or at the task, if that is so. A `sub_task`
    has no user: where it would wait for a message, it is done.
    """

    inbox: tuple[Item, ...] = ()
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    seconds: float = 0.0
    exhausted: str | None = None
    sub_task: bool = False

    @property
    def stop(self) -> Stop | None:
        """The user's wish that the task ends."""
        return next((item for item in self.inbox if isinstance(item, Stop)), None)

    @property
    def interruption(self) -> Message | None:
        """The oldest message that interrupts."""
        return next((item for item in self.inbox if isinstance(item, Message) and item.interrupts), None)

    @property
    def raised(self) -> Raise | None:
        """The oldest raise of the limits."""
        return next((item for item in self.inbox if isinstance(item, Raise)), None)

    @property
    def ended(self) -> str | None:
        """Why nobody waits any more for what is being done."""
        if self.stop is not None:
            return self.stop.reason
        return self.exhausted or (INTERRUPTED if self.interruption else None)
