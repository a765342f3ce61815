"""Recording: the turns, tool results and user input of a task, separated for simulations."""

from typing import Any

from roboco.domain.history.part import Part
from roboco.domain.history.step import TaskStep
from roboco.domain.inbox.item import Item
from roboco.domain.recorded.recorded_call import RecordedCall
from roboco.domain.schema import RecordModel


class RecordedTurn(RecordModel):
    """The content of one turn of an agent."""

    agent: str
    parts: tuple[Part, ...]
    metadata: dict[str, Any] = {}


class ExternalInput(RecordModel):
    """External input, received when the history had `at` steps, or if `waited`, once the task waited for the user.

    Exactly one of the fields after `waited` is set.
    """

    at: int
    waited: bool = False
    item: Item | None = None
    exhausted: str | None = None
    """The reason why no further attempt was made."""
    seconds: float | None = None
    """The age of the task in seconds."""
    step: TaskStep | None = None
    """A step that does not follow from the history."""


class Recording(RecordModel):
    """A task in parts: its first steps, and the later turns, calls and inputs, each in order."""

    opening: tuple[TaskStep, ...]
    turns: tuple[RecordedTurn, ...] = ()
    calls: tuple[RecordedCall, ...] = ()
    inputs: tuple[ExternalInput, ...] = ()
    sub_task: bool = False
