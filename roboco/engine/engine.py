"""Engine: the ports and the policy that every operation of the engine uses."""

import threading
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from roboco.domain.day_budget import TenantBudgets
from roboco.domain.dead_letter import DeadLetter, WorkKind, dead_letter_of_lost_work
from roboco.domain.removal.retention import RetentionRule
from roboco.engine.backoff import Backoff
from roboco.engine.heartbeat import LeaseHeartbeat
from roboco.engine.held_work import HeldWork, Quarantine
from roboco.engine.history_tail import HistoryTails, StepCache
from roboco.engine.redis_silence import RedisSilence
from roboco.engine.switches import SwitchBoard
from roboco.engine.worker_status import WorkerStatus
from roboco.engine.workspace_records import FrozenTeams, StoredEvents, Summaries
from roboco.ports.clock import Clock
from roboco.ports.dead_letters import DeadLetters
from roboco.ports.dispatcher import Dispatcher
from roboco.ports.histories import Histories
from roboco.ports.leases import Leases
from roboco.ports.logs import EventLogs
from roboco.ports.model import CallModel
from roboco.ports.notifier import Deliver
from roboco.ports.rate_limits import RateLimiter
from roboco.ports.registry import WorkerRegistry
from roboco.ports.schedule import Schedule
from roboco.ports.shop import Shop
from roboco.ports.signals import Listen
from roboco.ports.task_index import TaskIndex
from roboco.ports.task_store import TaskStore
from roboco.ports.telemetry import Telemetry
from roboco.ports.tools import Toolbox
from roboco.ports.workspace import Files

PARALLEL_ERASURES = 4
"""Erasures that a process carries out at the same time: one of many files takes minutes."""


@dataclass(frozen=True)
class LogLimits:
    """The bounds of the event log that Redis keeps of an open task; sizes in bytes. The workspace has older events."""

    max_events: int = 256
    """The number of events at which the log of a running task is archived."""
    max_bytes: int = 72 * 1024
    """The size beyond which it is archived."""
    kept_events: int = 32
    """The number of newest events that remain then, for followers that are a little late."""
    kept_bytes: int = 16 * 1024
    """The size of these events."""
    waiting_bytes: int = 1024
    """The size beyond which the log of a waiting task is archived. Its last event remains."""


@dataclass(frozen=True)
class Policy:
    """The limits and times of the engine; times in seconds."""

    lease: float = 15.0
    """How long a claim counts without a heartbeat."""
    redelivery_delay: float = 10.0
    """How long dispatched work waits for a claim before it is dispatched again. The delay doubles each time."""
    max_redelivery_delay: float = 300.0
    """The longest delay of a redelivery."""
    max_attempts: int = 5
    """How often a turn, a tool call or a message is tried before it counts as failed."""
    store_timeout: float = 600.0
    """How long a worker waits for a server that does not answer. It keeps the step of a turn without a limit."""
    retention: int = 86_400
    """How long an ended task stays in Redis."""
    retention_rules: tuple[RetentionRule, ...] = ()
    """The rules by which ended tasks are removed; the first one that covers a task counts."""
    index_retention: float = 30 * 86_400.0
    """How long an ended task stays in the task index."""
    max_indexed_ended: int = 100_000
    """The most ended tasks in the task index."""
    interrupt_grace: float = 2.0
    """How long the worker of a cancelled turn may take to store the text until then, before the turn is abandoned."""
    max_queued: int | None = None
    """Queued messages with which no new task is accepted; None if there is no limit."""
    budgets: TenantBudgets = field(default_factory=TenantBudgets)
    """The budgets of tenants for a day."""
    log_limits: LogLimits = field(default_factory=LogLimits)
    """The bounds of the event logs."""


@dataclass(frozen=True)
class WorkspaceRecords:
    """The records of tasks that last, and what this process has read of them."""

    files: Files
    histories: Histories
    frozen_teams: FrozenTeams
    step_cache: StepCache = field(default_factory=StepCache)

    @property
    def summaries(self) -> Summaries:
        """Return the summaries of tasks."""
        return Summaries(self.files)

    @property
    def tails(self) -> HistoryTails:
        """Return the newest steps of tasks, also those that Redis has trimmed."""
        return HistoryTails(self.histories, self.step_cache)

    @property
    def stored_events(self) -> StoredEvents:
        """Return the archived events of tasks."""
        return StoredEvents(self.files, self.histories)


@dataclass(frozen=True)
class TaskStores:
    """The state of tasks in Redis, which can be rebuilt from the workspace."""

    task_store: TaskStore
    leases: Leases
    schedule: Schedule
    event_logs: EventLogs
    dead_letters: DeadLetters
    task_index: TaskIndex


@dataclass(frozen=True)
class Services:
    """The services that a process calls for a task: models, tools, messages, and other workers."""

    call_model: CallModel
    rate_limiter: RateLimiter
    toolbox: Toolbox
    dispatcher: Dispatcher
    deliver: Deliver
    listen: Listen
    workers: WorkerRegistry
    shop: Shop
    telemetry: Telemetry = field(default_factory=Telemetry)


@dataclass(frozen=True)
class Process:
    """The work that this process holds, and what it has learned of its servers."""

    heartbeat: LeaseHeartbeat
    held_work: HeldWork
    switches: SwitchBoard
    quarantine: Quarantine = field(default_factory=Quarantine)
    backoff: Backoff = field(default_factory=Backoff)
    redis_silence: RedisSilence = field(default_factory=RedisSilence)
    erasure_slots: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(PARALLEL_ERASURES))


@dataclass(frozen=True)
class Engine:
    """The parts and the policy of one process. A composition root creates it once.

    A function takes the group that it uses, and the whole engine only if it uses several.
    """

    tasks: TaskStores
    workspace: WorkspaceRecords
    services: Services
    process: Process
    clock: Clock
    policy: Policy = field(default_factory=Policy)

    @cached_property
    def worker_status(self) -> WorkerStatus:
        """Return the live workers, and the id of the workspace, which this process has read lately."""
        return WorkerStatus(self.services.workers, self.services.dispatcher.fault, self.workspace.files)

    def now(self) -> datetime:
        """Return the time of this machine's clock, UTC."""
        return self.time_at(self.clock.now())

    def time_at(self, seconds: float) -> datetime:
        """Return the time of these Unix seconds, UTC."""
        return datetime.fromtimestamp(seconds, UTC)

    def new_token(self) -> str:
        """Return a new fencing token: it identifies the owner of a lease."""
        return uuid.uuid4().hex


def store_dead_letter(
    engine: Engine, work: WorkKind, task_id: str, detail: str, reason: str, attempts: int
) -> DeadLetter:
    """Store the dead letter of work that no worker could do, and return it. One of the same work is replaced."""
    letter = dead_letter_of_lost_work(work, task_id, detail, reason, attempts, engine.now())
    engine.tasks.dead_letters.add(letter)
    return letter


ATTEMPT_KINDS = ("pass", "failed-pass", "router")
"""The kinds of attempts that are counted for a task."""


def reset_attempts(tasks: TaskStores, task_id: str) -> None:
    """Reset the counts of the task's attempts to zero."""
    tasks.leases.finish_attempts(*(f"{kind}:{task_id}" for kind in ATTEMPT_KINDS))
