"""Leases: on turns and tool calls, and what is told while they last."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from roboco.domain.event import AnyEvent, StatusChanged, StreamChunk
from roboco.domain.outcome import Outcome
from roboco.domain.priority import Priority
from roboco.ports.board import Snapshot, Used


class Grip(Enum):
    """How a lease stands: it is ours, it is ours and somebody wants the work to end now, or it is lost, which is false.

    The values are those that scripts return.
    """

    LOST = 0
    OURS = 1
    ASKED = 2

    def __bool__(self) -> bool:
        return self is not Grip.LOST


@dataclass(frozen=True)
class Cut:
    """That somebody wants a turn to end: since when, in Unix seconds, and how many chunks it had emitted then."""

    at: float
    emitted: int


@dataclass(frozen=True)
class TurnOrder:
    """The turn that a message announces."""

    task_id: str
    seq: int
    epoch: int
    attempt: int
    priority: Priority = "normal"


@dataclass(frozen=True)
class TurnClaim:
    """A turn that is ours until its lease ends: `token` is the owner's, `task` what the board said."""

    order: TurnOrder
    token: str
    task: Snapshot


@dataclass(frozen=True)
class Chunk:
    """A piece of a turn's text: its `number` in this attempt, from 1, and what the answer has used with it."""

    number: int
    message: StreamChunk
    used: Used


Heard = Callable[["Grip | Exception"], None]
"""Is told how a lease stands after a chunk, or what kept the chunk from going out."""


class Turns(Protocol):
    """Leases on turns. Everything is refused once the fence has moved."""

    def claim(self, order: TurnOrder, token: str, tail: int) -> TurnClaim | None:
        """The claim; None if the fence moved, the position is taken, or this attempt was claimed before.

        None too if somebody wants the turn to end that has not begun.
        """

    def emit(self, claim: TurnClaim, chunk: Chunk, heard: Heard) -> None:
        """Number the chunk, log it, publish it and renew the lease; one whose `number` was sent before is dropped.

        Nobody waits: `heard` is told how the lease stands, or what failed, at once or later and from any thread.
        """

    def renew(self, claim: TurnClaim) -> Grip:
        """Renew the lease, if the turn is still ours."""

    def cut(self, claim: TurnClaim) -> Cut | None:
        """That somebody wants the turn to end, if so."""

    def defer(self, claim: TurnClaim, seconds: float, event: StatusChanged, refused: bool) -> bool:
        """Give the turn back until so many seconds from now: the same attempt may be claimed again then.

        The event says why. `refused`: its model's server did not want it, which is counted. False if it is not ours.
        """

    def restart(self, task_id: str, epoch: int, event: AnyEvent, token: str = "") -> int | None:
        """Void the attempt and move the fence: the new epoch; None if the fence moved or a live lease stands.

        Who names the lease's own `token` may restart in spite of it.
        """

    def ring(self, task_id: str, epoch: int, again: bool) -> int:
        """Count that the pending choice was found untaken: how often so far, 0 if the fence moved.

        With `again` it is handed out once more, now.
        """


@dataclass(frozen=True)
class CallOrder:
    """The tool call that a message announces; `seq` is the position of the step that called."""

    task_id: str
    seq: int
    epoch: int
    call_id: str
    attempt: int
    priority: Priority = "normal"


class Calls(Protocol):
    """Leases on tool calls and their outcomes; each call of a step stands alone."""

    def claim(self, order: CallOrder, token: str) -> bool:
        """Whether the call is ours now: not if the fence moved, it has an outcome or this attempt was claimed.

        Nor if somebody wants the calls to end and this one has not begun.
        """

    def renew(self, order: CallOrder, token: str) -> bool:
        """Renew the lease; False if the call is no longer ours."""

    def record(self, order: CallOrder, token: str | None, outcome: Outcome, event: AnyEvent) -> int | None:
        """Keep the outcome, once: how many outcomes the step has now; None if the call is not ours.

        Without a token the outcome is kept whoever has the call: its time is up.
        """

    def give_back(self, order: CallOrder, token: str) -> None:
        """Nobody has the call any more, and this attempt may be claimed again; nothing happens if it is not ours."""

    def restart(self, order: CallOrder, lost: bool = False) -> int | None:
        """Void a call's attempt whose lease has ended: the next attempt; None if there is nothing to void.

        With `lost` the lease does not count: its worker is known to be gone.
        """
