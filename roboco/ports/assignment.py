"""Assignments: the work that a message gives to a worker."""

from dataclasses import dataclass
from typing import Final

from roboco.domain.status import Priority

CANCELS: Final = 0
"""The attempt of a message that lets an agents worker cancel the remote task of a turn. Turns begin with attempt 1."""


@dataclass(frozen=True)
class TurnAssignment:
    """The turn that a message assigns to an agents worker."""

    task_id: str
    seq: int
    epoch: int
    attempt: int
    priority: Priority = "normal"


@dataclass(frozen=True)
class ToolAssignment:
    """The tool call that a message assigns to a tools worker."""

    task_id: str
    seq: int
    """The position of the step with the call."""
    epoch: int
    call_id: str
    attempt: int
    priority: Priority = "normal"


@dataclass(frozen=True)
class ListingRequest:
    """A request to a tools worker to list the tools of a server for the task."""

    task_id: str
    server: str
