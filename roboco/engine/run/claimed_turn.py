"""claimed_turn: a turn that a worker has claimed, and its cancellation by a user or another worker.

The worker learns of a cancellation request in one of three ways: a signal (pub/sub, at once), the answer of Redis to an
emitted chunk, or the answer to the heartbeat that renews the lease. The signal is fast and may get lost; the other two
make the cancellation certain.
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.team.team import Agent, Team
from roboco.engine.engine import Engine
from roboco.engine.record import rate_tickets as tickets
from roboco.engine.retry import retry
from roboco.ports.leases import TurnClaim
from roboco.ports.model import ModelStream
from roboco.ports.rate_limits import Ticket
from roboco.ports.remote_task import RemoteTask
from roboco.ports.snapshot import Snapshot, TurnProgress
from roboco.ports.telemetry import INTERRUPT_LATENCY_SECONDS, OperationSpan

T = TypeVar("T")
_log = logging.getLogger(__name__)

CLOSE_TIMEOUT = 1.0
"""Seconds for which a worker waits until the model's connection is closed, to record when it was."""


class Cancellation:
    """Closes the model's stream as soon as cancellation is requested, in whatever thread that is."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._stream: ModelStream | None = None
        self._abandoned = False
        self.requested_at: datetime | None = None

    @property
    def requested(self) -> bool:
        """True if cancellation of the turn was requested."""
        return self.requested_at is not None

    def request(self) -> None:
        """Request cancellation: close the stream, and keep the time of the first request."""
        with self._lock:
            self.requested_at = self.requested_at or self._engine.now()
        self._close()

    def attach(self, stream: ModelStream) -> None:
        """Attach the stream that a cancellation closes. Close it now if the turn was cancelled or abandoned before."""
        with self._lock:
            self._stream = stream
        if self.requested or self._abandoned:
            stream.close()

    def abandon(self) -> None:
        """Abandon the turn: close the stream, because another attempt has replaced this one or will replace it."""
        with self._lock:
            self._abandoned = True
        self._close()

    def _close(self) -> None:
        if (stream := self._stream) is not None:
            stream.close()

    def receipt(self, claim: TurnClaim, stream: ModelStream, chunks: int) -> dict[str, Any]:
        """Return when cancellation was requested, seen by this worker and effective, and the chunks emitted after it.

        The times are ISO 8601, UTC. `closed_at` is null if the model's connection was not closed within a second.
        """
        engine = self._engine
        closed_at = engine.now() if stream.wait_closed(CLOSE_TIMEOUT) else None
        description = f"the time of the request to cancel the turn of task {claim.assignment.task_id}"
        request = retry(
            lambda: engine.tasks.leases.cancel_request(claim),
            lambda: True,
            description,
            engine.clock,
            engine.policy.store_timeout,
        )
        if request is not None and closed_at is not None:
            engine.services.telemetry.record(INTERRUPT_LATENCY_SECONDS, closed_at.timestamp() - request.requested_at)
        return {
            "requested_at": None if request is None else _iso(engine.time_at(request.requested_at)),
            "seen_at": _iso(self.requested_at),
            "closed_at": _iso(closed_at),
            "chunks_after": 0 if request is None else max(0, chunks - request.emitted_chunks),
        }


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


LOGGED_SILENCE = 30.0
"""Seconds of silence of a model after which its worker logs that."""


class ProgressNote:
    """The record of how far a turn's model call has come. The heartbeat reads it in another thread."""

    def __init__(self) -> None:
        self._followed: tuple[str, ModelStream] | None = None  # the model's name, and its call
        self.kept = ""
        """Why the workspace does not take the whole answer, or ""."""
        self._logged = 0.0  # the time since when the model was silent, of the last warning

    def follow(self, profile: ModelProfile, stream: ModelStream) -> None:
        """Record the progress of this call from now on."""
        self._followed = (profile.model, stream)

    def note(self) -> str:
        """Return the record, or "" before the first call. Log a model that has been silent for long, once."""
        if self._followed is None:
            return ""
        name, stream = self._followed
        call = asdict(stream.progress)
        model = f"{name[:100]!r} at {call.pop('server')[:100]}"
        progress = TurnProgress(model, **call, kept=self.kept)
        silence = time.time() - progress.heard_at
        if silence >= LOGGED_SILENCE and not self.kept and progress.heard_at != self._logged:
            self._logged = progress.heard_at
            limit = f"the limit is {progress.limit:.0f} s"
            _log.warning("model %s has sent nothing for %.0f s; %s", model, silence, limit)
        return progress.to_json()


@dataclass(frozen=True)
class ClaimedTurn:
    """A turn that this worker has claimed."""

    engine: Engine
    team: Team
    claim: TurnClaim
    cancellation: Cancellation
    span: OperationSpan
    claimed_at: float
    """The time of the claim, in Unix seconds."""
    progress: ProgressNote = field(default_factory=ProgressNote)
    """The progress of the turn's model call, for the heartbeat."""
    messages: list[RemoteTask] = field(default_factory=list)
    """The messages to remote agents of this attempt. A message that is in no record yet is known here."""

    @property
    def task_id(self) -> str:
        """The id of the turn's task."""
        return self.claim.assignment.task_id

    @property
    def task(self) -> Snapshot:
        """The task as it was claimed."""
        return self.claim.snapshot

    @property
    def agent(self) -> Agent:
        """The agent whose turn it is."""
        return self.team.agent(self.task.position.agent)

    @property
    def rule(self) -> str:
        """The rule by which the agent was chosen."""
        return str(self.task.position.routing.get("rule"))

    @property
    def profile(self) -> ModelProfile:
        """The profile of the agent's model."""
        return self.team.profile(self.agent)

    @property
    def ticket(self) -> Ticket:
        """The place of the turn's request in the queue of its provider's rate limit."""
        return tickets.turn_ticket(self.team, self.task_id, self.task)

    def with_older_steps(self) -> "ClaimedTurn":
        """Return the turn with all steps that its team can need, also those that Redis has trimmed.

        Cost: nothing while Redis or this process has them, else as `HistoryTails.complete`.
        """
        task = self.engine.workspace.tails.complete(self.task_id, self.task, self.team.tail_length)
        return self if task is self.task else replace(self, claim=replace(self.claim, snapshot=task))

    def retry(self, operation: Callable[[], T], description: str) -> T:
        """Return the result of the operation, which is called again as long as its server is silent and the turn held.

        Raise TransientError once another attempt has the turn.
        """
        return retry(
            operation,
            lambda: bool(self.engine.tasks.leases.renew(self.claim.lease)),
            f"{description} of task {self.task_id}",
            self.engine.clock,
            math.inf,
        )
