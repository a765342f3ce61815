"""Ports: what the engine needs from the world, and what each implementation must keep.

Every method may raise TransientError when its server does not answer; the engine then gives up what it
was doing, and the sweeper has it done again. A call that is sent twice, because an answer got lost, has
the effect of one.
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
