"""Ports: the interfaces through which the engine uses Redis, the broker, the workspace, models and tools.

The docstrings are the contract of every implementation. Every method may raise TransientError if its server does not
respond. The engine then abandons its current work, and the sweeper has it done again. A call that is sent twice,
because its answer was lost, has the effect of one.

Fencing: each recorded decision and each commit increases the epoch of the task, its fencing token. A worker passes the
epoch of its work with every write, and a write with an older epoch is refused. Therefore a worker that was paused for
longer than its lease cannot change the task after another worker took over.
"""

from roboco.ports.attempts import Attempts
from roboco.ports.clock import Clock
from roboco.ports.dead_letters import DeadLetters
from roboco.ports.dispatcher import AttemptStatus, Dispatcher
from roboco.ports.inbox import Inbox
from roboco.ports.leases import (
    CancelRequest,
    Chunk,
    EmitCallback,
    LeaseStatus,
    ToolAssignment,
    ToolLeases,
    TurnAssignment,
    TurnClaim,
    TurnLeases,
)
from roboco.ports.logs import EventLogs
from roboco.ports.model import Model, ModelStream, OnText, Reply, Request, RequestedCall, Templates
from roboco.ports.notifier import Notifier
from roboco.ports.rate_limits import RateLimiter, Ticket, Tokenizers
from roboco.ports.registry import WorkerRegistry, WorkspaceIdentity
from roboco.ports.schedule import Schedule
from roboco.ports.signals import Signals
from roboco.ports.task_store import CallState, Commit, Decision, Declined, Phase, Snapshot, TaskStore, TokenUsage
from roboco.ports.telemetry import MetricSpec, NoTelemetry, Operation, OperationSpan, Telemetry
from roboco.ports.tools import ListingRequest, Listings, MissingListing, Toolbox, ToolContext
from roboco.ports.workspace import Files, Histories, VersionedFile

__all__ = [
    "AttemptStatus",
    "Attempts",
    "CallState",
    "CancelRequest",
    "Chunk",
    "Clock",
    "Commit",
    "DeadLetters",
    "Decision",
    "Declined",
    "Dispatcher",
    "EmitCallback",
    "EventLogs",
    "Files",
    "Histories",
    "Inbox",
    "LeaseStatus",
    "ListingRequest",
    "Listings",
    "MetricSpec",
    "MissingListing",
    "Model",
    "ModelStream",
    "NoTelemetry",
    "Notifier",
    "OnText",
    "Operation",
    "OperationSpan",
    "Phase",
    "RateLimiter",
    "Reply",
    "Request",
    "RequestedCall",
    "Schedule",
    "Signals",
    "Snapshot",
    "TaskStore",
    "Telemetry",
    "Templates",
    "Ticket",
    "TokenUsage",
    "Tokenizers",
    "ToolAssignment",
    "ToolContext",
    "ToolLeases",
    "Toolbox",
    "TurnAssignment",
    "TurnClaim",
    "TurnLeases",
    "VersionedFile",
    "WorkerRegistry",
    "WorkspaceIdentity",
]
