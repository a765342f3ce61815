"""Ports: what the engine needs from the world, and what each implementation must keep.

Every method may raise TransientError when its server does not answer; the engine then gives up what it
was doing, and the sweeper has it done again. A call that is sent twice, because an answer got lost, has
the effect of one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from roboco.domain.event import AnyEvent, StreamChunk
from roboco.domain.letter import DeadLetter
from roboco.domain.memory import Message
from roboco.domain.outcome import Outcome
from roboco.domain.part import ToolCall
from roboco.domain.router import Router
from roboco.domain.state import TaskState
from roboco.domain.status import TaskStatus
from roboco.domain.step import TaskStep
from roboco.domain.team import Agent, ModelProfile, Team, ToolSpec


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
class Snapshot:
    """A task as the board has it: `epoch` is the fence, `seq` the position of the next step.

    `handed_at` is when the pending choice was handed out last, in Unix seconds, and `rings` how often the sweeper
    has found it untaken; `lease_left` is the rest of a live lease in seconds, or 0; `routing` belongs to the
    pending turn; `item_ids` are in the inbox.
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
    routing: dict[str, Any]
    state: TaskState
    first: TaskStep
    tail: tuple[TaskStep, ...]
    item_ids: tuple[str, ...]
    calls: Mapping[str, CallState]


@dataclass(frozen=True)
class Choice:
    """What is to happen next, as it is written down before it is handed out.

    `items`, if given, is how many items the inbox held when it was decided: with more of them it is void.
    """

    phase: Phase
    status: TaskStatus
    reason: str = ""
    agent: str = ""
    routing: Mapping[str, Any] | None = None
    items: int | None = None


class Board(Protocol):
    """The state of tasks, in Redis. All of it can be computed again from the workspace."""

    def load(self, task_id: str, tail: int) -> Snapshot | None:
        """The task with at most `tail` of its newest steps, at one moment; None if it is not known."""

    def create(self, task_id: str, steps: Sequence[TaskStep], state: TaskState, events: Sequence[AnyEvent]) -> bool:
        """Set the task up, idle, with these newest steps; False and nothing changed if it is known already."""

    def choose(self, task_id: str, epoch: int, choice: Choice, events: Sequence[AnyEvent]) -> int | None:
        """Write the choice down and move the fence: the new epoch, or None if the fence had moved or it is void."""

    def commit(self, task_id: str, epoch: int, step: TaskStep, state: TaskState, events: Sequence[AnyEvent]) -> bool:
        """Take over a stored step: the task is idle after it and the fence moves.

        True also if the step was taken over before; False if the fence had moved and the step is not in.
        """

    def begin_again(self, task_id: str, event: AnyEvent) -> None:
        """Begin a new generation of the logs with this event; nothing happens if the task is not known."""

    def leave(self, task_id: str, seconds: int) -> None:
        """Forget an ended task after so many seconds."""


@dataclass(frozen=True)
class TurnOrder:
    """The turn that a message announces."""

    task_id: str
    seq: int
    epoch: int
    attempt: int


@dataclass(frozen=True)
class TurnClaim:
    """A turn that is ours until its lease ends: `token` is the owner's, `task` what the board said."""

    order: TurnOrder
    token: str
    task: Snapshot


class Turns(Protocol):
    """Leases on turns. Everything is refused once the fence has moved."""

    def claim(self, order: TurnOrder, token: str, tail: int) -> TurnClaim | None:
        """The claim; None if the fence moved, the position is taken, or this attempt was claimed before."""

    def emit(self, claim: TurnClaim, number: int, chunk: StreamChunk) -> bool:
        """Number the chunk, log it, publish it and renew the lease; a `number` that was sent before is dropped."""

    def renew(self, claim: TurnClaim) -> bool:
        """Renew the lease; False if the turn is no longer ours."""

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


class Calls(Protocol):
    """Leases on tool calls and their outcomes; each call of a step stands alone."""

    def claim(self, order: CallOrder, token: str) -> bool:
        """Whether the call is ours now: not if the fence moved, it has an outcome or this attempt was claimed."""

    def renew(self, order: CallOrder, token: str) -> bool:
        """Renew the lease; False if the call is no longer ours."""

    def record(self, order: CallOrder, token: str | None, outcome: Outcome, event: AnyEvent) -> int | None:
        """Keep the outcome, once: how many outcomes the step has now; None if the call is not ours.

        Without a token the outcome is kept whoever has the call: its time is up.
        """

    def restart(self, order: CallOrder, lost: bool = False) -> int | None:
        """Void a call's attempt whose lease has ended: the next attempt; None if there is nothing to void.

        With `lost` the lease does not count: its worker is known to be gone.
        """


class Agenda(Protocol):
    """When the sweeper looks at a task again. Every open task stands in it. Times are Unix seconds."""

    def put(self, task_id: str, at: float) -> None:
        """Look at the task at this time."""

    def add(self, task_id: str, at: float) -> bool:
        """Look at the task at this time, unless a time stands already; whether none stood."""

    def hasten(self, task_id: str, at: float) -> None:
        """Look at the task at this time, unless an earlier one stands."""

    def due(self, now: float, limit: int) -> list[str]:
        """The tasks whose time has come, earliest first."""

    def drop(self, task_id: str) -> None:
        """Do not look at the task again."""

    def lock(self, token: str, seconds: float) -> bool:
        """Whether this sweeper may sweep now, for so many seconds."""

    def intact(self) -> bool:
        """Whether Redis holds all that it held at the last `begin`: not if it was emptied or started again."""

    def restarted(self) -> bool:
        """Whether Redis was started again, or replaced, since the last `begin`; not if it was emptied."""

    def fresh(self) -> bool:
        """Whether the last `begin` was less than its `seconds` ago."""

    def begin(self, seconds: float) -> None:
        """Note that every open task stands in the agenda; that is fresh for so many seconds."""


class Inbox(Protocol):
    """Which items wait for a task; what they say is in the workspace."""

    def knock(self, task_id: str, item_ids: Sequence[str]) -> None:
        """Note the items."""

    def forget(self, task_id: str, item_id: str) -> None:
        """The item was taken over."""


class Logs(Protocol):
    """The logs of both channels."""

    def events(self, task_id: str, after: int) -> Iterator[bytes]:
        """The messages of the execution channel after this number, oldest first."""

    def announce(self, task_id: str, event: AnyEvent) -> None:
        """Publish an event that belongs to no task that is known: it has no number and is in no log."""


class Histories(Protocol):
    """The histories of tasks: append-only, one writer wins each position."""

    def append(self, task_id: str, step: TaskStep) -> TaskStep:
        """Store the sealed step at its position and return what stands there: ours, or the step that won."""

    def read(self, task_id: str, start: int = 0) -> Iterator[TaskStep]:
        """The committed steps from a position on, each exactly once and in order."""

    def lines(self, task_id: str) -> Iterator[bytes]:
        """The stored lines, unread, oldest first."""

    def fold(self, task_id: str) -> None:
        """Gather what is stored in pieces into `history.jsonl`; harmless at any moment and twice at once."""


class Files(Protocol):
    """Files of the workspace by relative path; each is written whole or not at all."""

    def create(self, path: str, data: bytes) -> bool:
        """Store the file if there is none; False and nothing changed if another one stands there.

        True also if the same bytes stand there: an answer may have got lost.
        """

    def put(self, path: str, data: bytes) -> None:
        """Store the file, in place of an older one."""

    def get(self, path: str) -> bytes | None:
        """The file's bytes; None if there is none."""

    def delete(self, path: str) -> None:
        """Remove the file, if it is there."""

    def names(self, folder: str) -> list[str]:
        """The names directly below a folder ("" or ending in "/"), sorted; of folders without the "/"."""


@dataclass(frozen=True)
class Request:
    """One model call: messages and tools as the chat completions protocol has them."""

    profile: ModelProfile
    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class RequestedCall:
    """A tool call as the model wrote it: `arguments` should be a JSON object, but may be anything."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Reply:
    """How a model call ended; token counts as the model reported them, times in milliseconds."""

    model: str
    finish_reason: str
    calls: tuple[RequestedCall, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0
    first_token_ms: int = 0
    duration_ms: int = 0


class ModelStream(Protocol):
    """A running model call: texts as they come, then one Reply."""

    def __iter__(self) -> Iterator[str | Reply]:
        """Texts, gathered while they come fast, and at the end the Reply; ModelError if the call fails."""

    def close(self) -> None:
        """Close the connection to the model now, from any thread; iteration then ends. Twice is once."""


class Model(Protocol):
    """A way to call models."""

    def stream(self, request: Request) -> ModelStream:
        """Begin the call. Failures before the first token are tried again; later ones are raised."""


class Prompts(Protocol):
    """Templates of prompts."""

    def render(self, template: str, variables: Mapping[str, Any]) -> str:
        """The rendered prompt; UsageError if it names what is not there."""


@dataclass(frozen=True)
class CallContext:
    """What a tool may know of its call; the same `idempotency_key` on every attempt."""

    task_id: str
    agent: str
    call_id: str
    idempotency_key: str
    attempt: int


class Toolbox(Protocol):
    """The tools that this process can describe and run."""

    def describe(self, team: Team, agent: Agent) -> tuple[dict[str, Any], ...]:
        """The agent's tools as the chat completions protocol has them; UsageError if one cannot be had."""

    def run(self, call: ToolCall, spec: ToolSpec | None, context: CallContext) -> Outcome:
        """Run the call of a built-in (`spec` None) or declared tool; whatever goes wrong is in the outcome."""

    def verify(self, call: ToolCall, spec: ToolSpec, context: CallContext) -> Outcome | None:
        """What a lost call came to, as the tool's own `verify` finds out; None if it has none, or it fails."""

    def router(self, name: str) -> Router:
        """The router of the user's own with this name, "package.module:function"; UsageError if there is none."""


class Dispatcher(Protocol):
    """Sends the messages that announce work. A message may come late, twice or never."""

    def advance(self, task_id: str) -> None:
        """Have the coordinator look at the task."""

    def turn(self, order: TurnOrder, agent: str) -> None:
        """Have an agent worker make the turn."""

    def tool(self, order: CallOrder, name: str, timeout: float) -> None:
        """Have a tool worker make the call, and end it after `timeout` seconds."""

    def waiting_since(self, phase: Phase) -> float | None:
        """When the oldest message that no worker has taken was sent, in Unix seconds: of turns, calls or `advance`.

        None if none waits, or if the broker cannot tell.
        """


class Attempts(Protocol):
    """Work that may kill whoever does it: counted outside of what announces it."""

    def begin(self, key: str) -> int | None:
        """Note that the work begins: how often it was begun before and not ended; None while somebody is at it.

        Whoever begins is at it for the time of a lease.
        """

    def renew(self, key: str) -> bool:
        """Be at it for one more lease."""

    def count(self, key: str) -> int:
        """Note that the work begins, whoever else may be at it: how often it was begun before and not ended."""

    def end(self, key: str) -> None:
        """The work has ended, well or with an error: what was counted is forgotten."""


class DeadLetters(Protocol):
    """Messages that nobody delivers any more."""

    def bury(self, letter: DeadLetter) -> None:
        """Keep the letter, in place of one with the same id."""

    def letters(self) -> list[DeadLetter]:
        """All letters, oldest first."""

    def remove(self, letter_id: str) -> None:
        """Forget the letter, if it is there."""


class Clock(Protocol):
    """The time."""

    def now(self) -> float:
        """Unix seconds, UTC."""

    def sleep(self, seconds: float) -> None:
        """Let so many seconds pass."""
