"""Ending: somebody wants a turn to end before its model has; told by a signal, a chunk's answer or a heartbeat."""

import threading
from datetime import datetime
from typing import Any

from roboco.engine.engine import Engine
from roboco.engine.retry import retry
from roboco.ports import LeaseStatus, ModelStream, TurnClaim
from roboco.ports.telemetry import STOP_SECONDS

CLOSING = 1.0
"""Seconds for which the end of a model's connection is waited for, to say when it was."""


class Ending:
    """Closes the model's stream at once when it is asked to, in whatever thread that is."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._stream: ModelStream | None = None
        self._dropped = False
        self.asked_at: datetime | None = None

    @property
    def asked(self) -> bool:
        """Whether the turn is to end."""
        return self.asked_at is not None

    def ask(self) -> None:
        """End the turn."""
        with self._lock:
            self.asked_at = self.asked_at or self._engine.now()
            stream = self._stream
        if stream is not None:
            stream.close()

    def of(self, stream: ModelStream) -> None:
        """This is the stream to close; at once, if it was asked or dropped before."""
        with self._lock:
            self._stream = stream
            over = self.asked or self._dropped
        if over:
            stream.close()

    def drop(self) -> None:
        """Close the stream, since the turn is somebody else's now, or is to be made anew."""
        with self._lock:
            self._dropped = True
            stream = self._stream
        if stream is not None:
            stream.close()

    def renew(self, claim: TurnClaim) -> bool:
        """Renew the lease: whether the turn is still ours."""
        lease_status = self._engine.turns.renew(claim)
        if lease_status is LeaseStatus.CANCEL_REQUESTED:
            self.ask()
        return bool(lease_status)

    def receipt(self, claim: TurnClaim, stream: ModelStream, chunks: int) -> dict[str, Any]:
        """When the end was requested, seen here, and the model's connection closed, and how many chunks came after.

        Times in ISO 8601, UTC; `closed_at` is null if the connection was not closed within a second.
        """
        closed_at = self._engine.now() if stream.wait_closed(CLOSING) else None
        what = f"when the end of task {claim.order.task_id}'s turn was asked for"
        cut = retry(self._engine, lambda: self._engine.turns.cut(claim), lambda: True, what)
        if cut is not None and closed_at is not None:
            self._engine.telemetry.note(STOP_SECONDS, closed_at.timestamp() - cut.at)
        return {
            "requested_at": None if cut is None else _iso(self._engine.at(cut.at)),
            "seen_at": _iso(self.asked_at),
            "closed_at": _iso(closed_at),
            "chunks_after": 0 if cut is None else max(0, chunks - cut.emitted),
        }


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()
