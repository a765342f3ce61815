"""Ports: the interfaces through which the engine uses Redis, the broker, the workspace, models and tools.

The docstrings are the contract of every implementation. Every method may raise TransientError if its server does not
respond. The engine then abandons its current work, and the sweeper has it done again. A call that is sent twice,
because its answer was lost, has the effect of one.

Fencing: each recorded choice and each commit increases the epoch of the task, its fencing token. A worker passes the
epoch of its work with every write, and a write with an older epoch is refused. Therefore a worker that was paused for
longer than its lease cannot change the task after another worker took over.
"""

from roboco.ports.attempts import Attempts
from roboco.ports.clock import Clock
from roboco.ports.dead_letters import DeadLetters
from roboco.ports.dispatcher import AttemptEnd, Dispatcher
from roboco.ports.inbox import Inbox
from roboco.ports.leases import CallOrder, Calls, Chunk, Cut, Heard, LeaseStatus, TurnClaim, TurnOrder, Turns
from roboco.ports.logs import Logs
from roboco.ports.model import Model, ModelStream, Prompts, Reply, Request, RequestedCall, Say
from roboco.ports.notifier import Deliverer
from roboco.ports.rate_limits import Rates, Ticket, Tokenizers
from roboco.ports.registry import WorkerRegistry, WorkspaceName
from roboco.ports.schedule import Schedule
from roboco.ports.signals import Signals
from roboco.ports.task_store import Board, CallState, Choice, Commit, Declined, Phase, Snapshot, Used
from roboco.ports.telemetry import Doing, Figure, NoTelemetry, Telemetry, Work
from roboco.ports.tools import CallContext, Listings, ListOrder, Toolbox, Unlisted
from roboco.ports.workspace import Files, Histories, Versioned

__all__ = [
    "AttemptEnd",
    "Attempts",
    "Board",
    "CallContext",
    "CallOrder",
    "CallState",
    "Calls",
    "Choice",
    "Chunk",
    "Clock",
    "Commit",
    "Cut",
    "DeadLetters",
    "Declined",
    "Deliverer",
    "Dispatcher",
    "Doing",
    "Figure",
    "Files",
    "Heard",
    "Histories",
    "Inbox",
    "LeaseStatus",
    "ListOrder",
    "Listings",
    "Logs",
    "Model",
    "ModelStream",
    "NoTelemetry",
    "Phase",
    "Prompts",
    "Rates",
    "Reply",
    "Request",
    "RequestedCall",
    "Say",
    "Schedule",
    "Signals",
    "Snapshot",
    "Telemetry",
    "Ticket",
    "Tokenizers",
    "Toolbox",
    "TurnClaim",
    "TurnOrder",
    "Turns",
    "Unlisted",
    "Used",
    "Versioned",
    "Work",
    "WorkerRegistry",
    "WorkspaceName",
]
