"""The board: the state of tasks in Redis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from roboco.domain.event import AnyEvent
from roboco.domain.outcome import Outcome
from roboco.domain.state import TaskState
from roboco.domain.status import TaskStatus
from roboco.domain.step import TaskStep


class Phase(StrEnum):
    """What a task is doing between two commits: the kind of the choice that was written down last."""

    IDLE = "idle"
    TURN = "turn"
    TOOLS = "tools"
    WAIT = "wait"
    END = "end"


@dataclass(frozen=True)
class CallState:
    """A tool call that was handed out: attempts from 1, whether a worker took it, and its outcome."""

    attempt: int = 1
    claimed: bool = False
    lease_left: float = 0.0
    outcome: Outcome | None = None


@dataclass(frozen=True)
class Used:
    """What answers of a model have used, as far as it is known: tokens in and out, by an estimate."""

    tokens_in: int = 0
    tokens_out: int = 0

    def plus(self, more: "Used") -> "Used":
        """Both together."""
        return Used(self.tokens_in + more.tokens_in, self.tokens_out + more.tokens_out)


@dataclass(frozen=True)
class Snapshot:
    """A task as the board has it: `epoch` is the fence, `seq` the position of the next step.

    `handed_at` is when the pending choice was handed out last, in Unix seconds, and `rings` how often the sweeper
    has found it untaken; `lease_left` is the rest of a live lease in seconds, or 0; `routing` belongs to the
    pending turn; `item_ids` are in the inbox. `cut_age` is for how many seconds somebody has wanted the pending turn
    or calls to end, if so, and `due_in` for how many more the pending turn was given back, if it was: only `load`
    tells them. `refusals` is how often its model's server refused it. `generation`, `events` and `chunks` say how far
    the logs are, `emitted` how many chunks the pending turn's attempt has, and `used` what that and the attempts before
    it have used for the step to come, as far as they had begun to answer.
    """

    epoch: int
    seq: int
    phase: Phase
    status: TaskStatus
    reason: str
    agent: str
    attempt: int
    claimed: bool
    lease_left: float
    rings: int
    handed_at: float
    cut_age: float | None
    due_in: float | None
    refusals: int
    generation: str
    events: int
    chunks: int
    emitted: int
    used: Used
    routing: dict[str, Any]
    state: TaskState
    first: TaskStep
    tail: tuple[TaskStep, ...]
    item_ids: tuple[str, ...]
    calls: Mapping[str, CallState]


@dataclass(frozen=True)
class Choice:
    """What is to happen next, as it is written down before it is handed out.

    `seen`, if given, are the ids of the inbox items that the decision considered: if the inbox holds any other item,
    the choice is void. `run`, if given, is the run of Redis in which that was decided: in another one, which may have
    lost items, the choice is void.
    """

    phase: Phase
    status: TaskStatus
    reason: str = ""
    agent: str = ""
    routing: Mapping[str, Any] | None = None
    seen: frozenset[str] | None = None
    run: str | None = None


@dataclass(frozen=True)
class Commit:
    """A stored step that is to be taken over, the state of the history after it, and what followers are told of it."""

    step: TaskStep
    state: TaskState
    events: Sequence[AnyEvent]


class Board(Protocol):
    """The state of tasks, in Redis. All of it can be computed again from the workspace."""

    def load(self, task_id: str, tail: int) -> Snapshot | None:
        """The task with at most `tail` of its newest steps, at one moment; None if it is not known."""

    def create(
        self, task_id: str, steps: Sequence[TaskStep], state: TaskState, events: Sequence[AnyEvent], above: int = 0
    ) -> bool:
        """Set the task up, idle, with these newest steps; False and nothing changed if it is known already.

        The fence starts at the server's time in milliseconds, and in any case above the epoch `above`. The generation
        of the logs sorts behind all earlier ones of the task that began below that number.
        """

    def choose(self, task_id: str, epoch: int, choice: Choice, events: Sequence[AnyEvent]) -> int | None:
        """Write the choice down and move the fence: the new epoch, or None if the fence had moved or it is void."""

    def commit(self, task_id: str, epoch: int, commit: Commit) -> bool:
        """Take over a stored step: the task is idle after it and the fence moves.

        True also if the step was taken over before; False if the fence had moved and the step is not in.
        """

    def commit_and_choose(
        self, task_id: str, epoch: int, commit: Commit, choice: Choice, events: Sequence[AnyEvent]
    ) -> int | None:
        """`commit`, and, unless an item waits for the task, `choose` at the same moment: the new epoch of the choice.

        None if it was not written down, whatever became of the step.
        """

    def begin_again(self, task_id: str, epoch: int, events: Sequence[AnyEvent]) -> bool:
        """Begin a new generation of the logs with these events. False, and nothing changed, if the fence had moved.

        Nothing happens if the task is not known. The new generation sorts behind the present one. The fence of an idle
        or waiting task moves, to the server's time in milliseconds at least.
        """

    def leave(self, task_id: str, seconds: int) -> bool:
        """Forget an ended task after so many seconds. False, and nothing changed, if it is known and has not ended."""
