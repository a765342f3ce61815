"""What arrives for a task from outside and is not yet taken over."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from roboco.domain.history.part import Artifact
from roboco.domain.history.tool_outcome import Outcome
from roboco.domain.schema import Recorded


class _Item(Recorded):
    item_id: str
    created_at: datetime
    taken_at_seq: int | None = None


class Message(_Item):
    """A message of the user; `agent` may name who answers it, `interrupts` ends what is being done.

    What it has `brought` (goals, client tools, ...) stands in the metadata of the step that it becomes, and the
    `artifacts` in the step itself.
    """

    kind: Literal["message"] = "message"
    text: str
    agent: str | None = None
    interrupts: bool = False
    brought: dict[str, Any] = {}
    artifacts: tuple[Artifact, ...] = ()


class Stop(_Item):
    """The user's wish that the task ends now."""

    kind: Literal["stop"] = "stop"
    reason: str = "stopped by the user"


class Hold(_Item):
    """No step from position `until` on begins. It replaces the holds that it `ends`; `reason` gives its cause.

    The user has paused the task; or the model of the agent `outage` could not be reached for too long; or no worker can
    make the step at position `at`, because of the call `call_id` if there is one.
    """

    kind: Literal["hold"] = "hold"
    until: int = 0
    ends: tuple[str, ...] = ()
    outage: str = ""
    at: int | None = None
    call_id: str = ""
    reason: str = "paused by the user"

    def holds(self, seq: int) -> bool:
        """Return True if the step at this position may not begin."""
        return self.until <= seq and self.at in (None, seq)

    @property
    def by_user(self) -> bool:
        """True if the user has paused the task."""
        return self.outage == "" and self.at is None


class Resume(_Item):
    """The user's wish that the holds which it `ends` hold the task no more."""

    kind: Literal["resume"] = "resume"
    ends: tuple[str, ...] = ()


class Answer(_Item):
    """The outcome of a call that is answered from outside; `at_seq` is the position of the step that called."""

    kind: Literal["answer"] = "answer"
    call_id: str
    at_seq: int
    outcome: Outcome


class Verdict(_Item):
    """A person's word on a call that needs approval: with `args`, other arguments are approved than were asked for."""

    kind: Literal["verdict"] = "verdict"
    call_id: str
    at_seq: int
    approved: bool
    reason: str = ""
    args: dict[str, Any] | None = None


class Resolution(_Item):
    """A person's word on a tool call whose outcome nobody knows: whether it had its effect, and with what result.

    `at_seq` is the position of the step that called.
    """

    kind: Literal["resolution"] = "resolution"
    call_id: str
    at_seq: int
    happened: bool
    result: Any = None


class Raise(_Item):
    """Limits of the user's that take the place of the task's, as `RaisedLimits` names them."""

    kind: Literal["raise"] = "raise"
    limits: dict[str, Any]


Item = Message | Stop | Hold | Resume | Answer | Verdict | Resolution | Raise
_ADAPTER: TypeAdapter[Item] = TypeAdapter(Annotated[Item, Field(discriminator="kind")])


def read_item(data: bytes | str) -> Item:
    """The item of one stored file."""
    return _ADAPTER.validate_json(data)


def is_urgent(item: Item) -> bool:
    """Whether the item ends what is being done."""
    return isinstance(item, Stop) or (isinstance(item, Message) and item.interrupts)


def is_held(inbox: Iterable[Item], seq: int) -> bool:
    """Return True if the step at this position may not begin."""
    return any(isinstance(item, Hold) and item.holds(seq) for item in inbox)


def held_because(inbox: Iterable[Item], seq: int) -> str:
    """Return why the step at this position may not begin: the user's reason comes first. "" if it may."""
    holds = [item for item in inbox if isinstance(item, Hold) and item.holds(seq)]
    return min(holds, key=lambda item: not item.by_user).reason if holds else ""


def over(inbox: Iterable[Item]) -> tuple[str, ...]:
    """The ids of holds that others have ended, and then of what ended them and has no other use.

    Of those holds some may not have been noted yet: they count for no more when they are.
    """
    items = list(inbox)
    ends = {item_id: None for item in items if isinstance(item, Hold | Resume) for item_id in item.ends}
    return (*ends, *(item.item_id for item in items if isinstance(item, Resume)))
