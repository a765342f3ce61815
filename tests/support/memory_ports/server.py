"""The data of a Redis server in memory, which tests wipe or restore to an earlier state."""

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from roboco.domain.day_budget import DayBudget
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import AnyEvent, StreamChunk, unnumbered_json
from roboco.domain.task_entry import TaskEntry
from roboco.domain.usage import DayUsage
from roboco.ports.registry import DRAINING, POOLS, DrainRequest, Registration, WorkspaceIdentity
from roboco.ports.schedule import FillPosition
from roboco.ports.snapshot import Phase, TokenUsage
from roboco.ports.task_index import Rebuild, RetentionScan


@dataclass
class StoredCall:
    """A dispatched tool call. `outcome` is JSON."""

    attempt: int = 1
    released_token: str = ""
    owner: str = ""
    lease_until: float = 0.0
    outcome: str | None = None
    wait_epoch: int = 0


@dataclass
class StoredRequest:
    """A request to a model: its time, and the tokens that it counts for."""

    at: float
    tokens: int


@dataclass
class StoredWait:
    """A waiting ticket. It is dropped if it does not ask again before `late`."""

    tokens: int
    late: float = 0.0


@dataclass
class StoredBucket:
    """A limit's requests and waiting tickets."""

    made: dict[str, StoredRequest] = field(default_factory=dict)
    waits: dict[str, StoredWait] = field(default_factory=dict)


@dataclass
class StoredTask:
    """A task as the task store keeps it. Steps and states are JSON.

    `cancellation` is a request: its epoch, its time, and the number of chunks emitted by then.
    `deferral` is its epoch and its end. `refusals` counts the model server's refusals by epoch.
    `used` is the usage of the pending attempt, `unfinished` a position with the usage of its earlier attempts.
    """

    generation: str
    epoch: int
    seq: int
    state: str
    first: str
    status: TaskStatus
    tail: list[str]
    phase: Phase = Phase.UNDECIDED
    reason: str = ""
    agent: str = ""
    routing: str = "{}"
    attempt: int = 1
    handovers: int = 0
    owner: str = ""
    emitted: int = 0
    used: TokenUsage = field(default_factory=TokenUsage)
    note: tuple[int, str] = (0, "")
    unfinished: tuple[int, TokenUsage] = field(default_factory=lambda: (0, TokenUsage()))
    redeliveries: int = 0
    dispatched_at: float = 0.0
    cancellation: tuple[int, float, int] = (0, 0.0, 0)
    deferral: tuple[int, float] = (0, 0.0)
    refusals: tuple[int, int] = (0, 0)
    refused_at: float = 0.0
    refused_for: float = 0.0
    deferred_token: str = ""
    released_token: str = ""
    lease_until: float = 0.0
    calls: dict[str, StoredCall] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    first_event: int = 1
    archived_event: int = 0
    chunks: list[str] = field(default_factory=list)
    first_chunk: int = 1
    forget_at: float | None = None

    @property
    def last_event(self) -> int:
        """The number of events of this generation, with those that are trimmed from the log."""
        return self.first_event + len(self.events) - 1

    @property
    def last_chunk(self) -> int:
        """The number of chunks of this generation, with those that are trimmed from the log."""
        return self.first_chunk + len(self.chunks) - 1

    def trim_chunks(self, keep_from: int) -> None:
        """Remove the chunks before this number from the log."""
        keep_from = min(keep_from, self.last_chunk + 1)
        if keep_from > self.first_chunk:
            self.chunks = self.chunks[keep_from - self.first_chunk :]
            self.first_chunk = keep_from

    def move_fence(self, phase: Phase, now: float) -> None:
        """Move the fence to a new decision, or to none."""
        self.dispatched_at = now
        self.epoch += 1
        self.phase = phase
        self.attempt = 1
        self.handovers = 0
        if phase not in (Phase.WAIT, Phase.TOOLS):
            self.calls = {}
        self.release()

    def unfinished_usage(self) -> TokenUsage:
        """Return the usage of the next step's void attempts."""
        return self.unfinished[1] if self.unfinished[0] == self.seq else TokenUsage()

    def release(self) -> None:
        """Release the pending turn."""
        self.owner = ""
        self.emitted = 0
        self.used = TokenUsage()
        self.redeliveries = 0
        self.lease_until = 0.0


@dataclass
class StoredFill:
    """A fill of the schedule. `released` is the token of the claim that made the last advance."""

    mark: str
    position: FillPosition
    token: str = ""
    until: float = 0.0
    released: str = ""
    claimed_at: float = 0.0


@dataclass
class StoredData:
    tasks: dict[str, StoredTask] = field(default_factory=dict)
    inboxes: dict[str, set[str]] = field(default_factory=dict)
    inbox_until: dict[str, float] = field(default_factory=dict)
    erased_until: dict[str, float] = field(default_factory=dict)
    schedule: dict[str, float] = field(default_factory=dict)
    scans: dict[type, Rebuild | RetentionScan] = field(default_factory=dict)
    scan_locks: dict[type, tuple[str, float]] = field(default_factory=dict)
    filled_instance: int = 0
    mark: str = ""
    fresh_until: float = 0.0
    fill: StoredFill | None = None
    attempts: dict[str, int] = field(default_factory=dict)
    switches: tuple[int, str] | None = None
    attempt_leases: dict[str, float] = field(default_factory=dict)
    letters: dict[str, str] = field(default_factory=dict)
    letter_numbers: dict[str, int] = field(default_factory=dict)
    """The numbers of the letters in the order of storing."""
    stored_letters: int = 0
    buckets: dict[str, StoredBucket] = field(default_factory=dict)
    paused_until: dict[str, float] = field(default_factory=dict)
    awaiting: dict[str, dict[str, float]] = field(default_factory=dict)
    workers: dict[str, dict[str, float]] = field(default_factory=lambda: {pool: {} for pool in (*POOLS, DRAINING)})
    registrations: dict[str, Registration] = field(default_factory=dict)
    drain_requests: dict[str, DrainRequest] = field(default_factory=dict)
    workspace: WorkspaceIdentity | None = None
    entries: dict[str, TaskEntry] = field(default_factory=dict)
    day_usages: dict[tuple[str, str], tuple[str | None, int, DayUsage]] = field(default_factory=dict)
    caller_limits: dict[tuple[str, str], DayBudget] = field(default_factory=dict)
    caller_reservations: dict[tuple[str, str], tuple[float, DayUsage, int, str]] = field(default_factory=dict)
    day_reservations: dict[tuple[str, str], tuple[float, DayUsage]] = field(default_factory=dict)
    index_trimmed: datetime | None = None


class MemoryServer:
    """The data, with one lock around each operation. `published` holds all messages to subscribers, and is never lost.

    While `deaf` is set, signals are lost. `tail_steps` lowers the number of newest steps that it keeps of a task.
    """

    def __init__(self) -> None:
        self.tail_steps: int | None = None
        self.held = StoredData()
        self.instance = 1
        self.published: list[tuple[str, str]] = []
        self.deaf = False
        self.wiped = False
        self.listeners: list[tuple[str, int, Callable[[], None]]] = []
        self._lock = threading.RLock()
        self._generations = 0

    def __enter__(self) -> StoredData:
        self._lock.acquire()
        return self.held

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @contextmanager
    def listen(self, task_id: str, epoch: int, on_signal: Callable[[], None]) -> Iterator[None]:
        """Until the block ends, call `on_signal` when cancellation of the work of this epoch is requested."""
        entry = (task_id, epoch, on_signal)
        self.listeners.append(entry)
        try:
            yield
        finally:
            self.listeners.remove(entry)

    def wipe(self) -> None:
        """Lose all data."""
        self.wiped = True
        self.held = StoredData()

    def copy(self) -> StoredData:
        """Return a copy of all data."""
        return copy.deepcopy(self.held)

    def restore(self, kept: StoredData) -> None:
        """Restore the copy, as a server that restarts without its latest writes does."""
        self.held = copy.deepcopy(kept)
        self.instance += 1

    def generation(self) -> str:
        """Return a new generation."""
        self._generations += 1
        return f"{self._generations:012x}"

    def publish_event(self, task_id: str, task: StoredTask, event: AnyEvent) -> None:
        """Number the event, log it and publish it."""
        numbers = f'{{"seq":{task.last_event + 1},"generation":"{task.generation}","chunks":{task.last_chunk},'
        task.events.append(numbers + unnumbered_json(event))
        self.published.append((task_id, task.events[-1]))

    def publish_chunk(self, task_id: str, task: StoredTask, chunk: StreamChunk) -> None:
        """Number the chunk, log it and publish it."""
        numbers = f'{{"seq":{task.last_chunk + 1},"generation":"{task.generation}","events":{task.last_event},'
        task.chunks.append(numbers + unnumbered_json(chunk))
        self.published.append((task_id, task.chunks[-1]))
