"""cancellation: a turn ends before its model has finished, because a user or another worker cancelled it.

The worker learns of a cancellation request in one of three ways: a signal (pub/sub, at once), the answer of Redis to an
emitted chunk, or the answer to the heartbeat that renews the lease. The signal is fast and may get lost; the other two
make the cancellation certain.
"""

import threading
from datetime import datetime
from typing import Any

from roboco.engine.engine import Engine
from roboco.engine.retry import retry
from roboco.ports.leases import TurnClaim
from roboco.ports.model import ModelStream
from roboco.ports.telemetry import INTERRUPT_LATENCY_SECONDS

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
            stream = self._stream
        if stream is not None:
            stream.close()

    def attach(self, stream: ModelStream) -> None:
        """Attach the stream that a cancellation closes. Close it now if the turn was cancelled or abandoned before."""
        with self._lock:
            self._stream = stream
            closes = self.requested or self._abandoned
        if closes:
            stream.close()

    def abandon(self) -> None:
        """Abandon the turn: close the stream, because another attempt has replaced this one or will replace it."""
        with self._lock:
            self._abandoned = True
            stream = self._stream
        if stream is not None:
            stream.close()

    def receipt(self, claim: TurnClaim, stream: ModelStream, chunks: int) -> dict[str, Any]:
        """Return when cancellation was requested, seen by this worker and effective, and the chunks emitted after it.

        The times are ISO 8601, UTC. `closed_at` is null if the model's connection was not closed within a second.
        """
        closed_at = self._engine.now() if stream.wait_closed(CLOSE_TIMEOUT) else None
        description = f"the time of the request to cancel the turn of task {claim.assignment.task_id}"
        request = retry(
            lambda: self._engine.tasks.leases.cancel_request(claim),
            lambda: True,
            description,
            self._engine.clock,
            self._engine.policy.store_timeout,
        )
        if request is not None and closed_at is not None:
            self._engine.services.telemetry.record(
                INTERRUPT_LATENCY_SECONDS, closed_at.timestamp() - request.requested_at
            )
        return {
            "requested_at": None if request is None else _iso(self._engine.time_at(request.requested_at)),
            "seen_at": _iso(self.requested_at),
            "closed_at": _iso(closed_at),
            "chunks_after": 0 if request is None else max(0, chunks - request.emitted_chunks),
        }


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()
