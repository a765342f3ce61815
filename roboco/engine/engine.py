"""Engine: the ports and the policy that every operation of the engine works with."""

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime

from roboco.engine.backoff import Backoff
from roboco.engine.frozen_teams import FrozenTeams
from roboco.engine.heartbeat import LeaseHeartbeat
from roboco.engine.quarantine import Quarantine
from roboco.engine.worker_status import WorkerStatus
from roboco.ports import (
    Attempts,
    Board,
    Calls,
    Clock,
    DeadLetters,
    Deliverer,
    Dispatcher,
    Files,
    Histories,
    Inbox,
    Logs,
    Model,
    NoTelemetry,
    Prompts,
    Rates,
    Schedule,
    Signals,
    Telemetry,
    Tokenizers,
    Toolbox,
    Turns,
    WorkerRegistry,
)


@dataclass(frozen=True)
class Policy:
    """The engine's numbers; times in seconds.

    `lease`: how long a claim counts without a heartbeat. `ring_pause`: how long a choice that no worker took
    waits before it is handed out again; the pause doubles each time, up to `longest_pause`. `attempts`: how
    often a turn or tool call is tried before it counts as failed. `patience`: how long a worker keeps what it has
    done while the workspace does not take it. `keep`: how long an ended task stays in Redis. `grace`: how long the
    worker of a turn that was interrupted may take to store what was said, before the turn is given up. `max_queued`:
    with how many waiting turns no new task is taken. `outage_limit`: for how long a turn is retried while its model's
    server refuses it or cannot be reached, before the task is paused.
    """

    lease: float = 15.0
    ring_pause: float = 10.0
    longest_pause: float = 300.0
    attempts: int = 5
    patience: float = 600.0
    keep: int = 86_400
    grace: float = 2.0
    max_queued: int | None = None
    outage_limit: float = 900.0


@dataclass(frozen=True)
class Engine:
    """Everything that an operation needs; made once per process by a composition root."""

    board: Board
    turns: Turns
    calls: Calls
    schedule: Schedule
    attempts: Attempts
    dead: DeadLetters
    inbox: Inbox
    logs: Logs
    histories: Histories
    files: Files
    model: Model
    rates: Rates
    tokenizers: Tokenizers
    prompts: Prompts
    toolbox: Toolbox
    dispatcher: Dispatcher
    deliverer: Deliverer
    signals: Signals
    workers: WorkerRegistry
    clock: Clock
    heartbeat: LeaseHeartbeat
    teams: FrozenTeams
    policy: Policy = field(default_factory=Policy)
    telemetry: Telemetry = field(default_factory=NoTelemetry)
    quarantine: Quarantine = field(default_factory=Quarantine)
    backoff: Backoff = field(default_factory=Backoff)
    status: WorkerStatus = field(default_factory=WorkerStatus)

    def now(self) -> datetime:
        """The time, UTC."""
        return self.at(self.clock.now())

    def at(self, seconds: float) -> datetime:
        """The time of these Unix seconds, UTC."""
        return datetime.fromtimestamp(seconds, UTC)

    def token(self) -> str:
        """A new owner's token."""
        return uuid.uuid4().hex
