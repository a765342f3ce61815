"""token_stream: the text of a model on its way to the followers of a task, while its turn runs.

    model's thread ─► write ─► emit ─► acknowledged with the status of the lease: held, cancellation requested, or lost
                       ▲        │
                       └────────┘ one chunk is in flight at a time; text that arrives meanwhile is the next chunk

One chunk in flight keeps the order: a chunk is sent after Redis has acknowledged the one before. The number of a chunk
makes an emit idempotent, and the lease's token fences it: Redis rejects a chunk of an attempt that another one has
replaced. If Redis does not acknowledge a chunk, the turn fails, and the next attempt streams its text again.
"""

import threading
from itertools import takewhile

from roboco.domain.canonical_json import well_formed
from roboco.domain.ids import step_id_at
from roboco.domain.stream.event import ReasoningChunk, StreamChunk
from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.tokens import estimate_tokens_of_bytes
from roboco.engine.engine import Engine
from roboco.engine.run.claimed_turn import Cancellation
from roboco.ports.lease_renewals import LeaseStatus
from roboco.ports.leases import Chunk, TurnClaim
from roboco.ports.model import Listener
from roboco.ports.snapshot import TokenUsage
from roboco.ports.telemetry import STREAM_LAG_SECONDS


class TokenStream:
    """The output of a turn."""

    def __init__(
        self,
        engine: Engine,
        claim: TurnClaim,
        cancellation: Cancellation,
        spent: TokenUsage,
        chunks: int = 0,
        held: bool = False,
    ) -> None:
        """`spent` are the tokens of the prompt and of earlier requests of the attempt, which emitted `chunks`.

        The chunks of a `held` stream are empty: they renew the lease and count tokens.
        """
        self.texts: list[str] = []
        """The texts that were emitted; final once `close` has returned."""
        self.chunk_count = chunks
        """The number of chunks that the attempt has emitted, of text and of reasoning."""
        self.truncated = False
        """True if some text was dropped at the end; final once `close` has returned."""
        self._engine = engine
        self._claim = claim
        self._cancellation = cancellation
        self._spent = spent
        self._held = held
        self._step_id = step_id_at(claim.assignment.task_id, claim.assignment.seq)
        self._bytes_out = 0
        self._changed = threading.Condition()
        self._queued: list[tuple[type[StreamChunk], str]] = []
        self._queued_at = 0.0
        self._surrogate = ""
        self._in_flight = self._closed = False
        self._lease_status = LeaseStatus.HELD
        self._error: Exception | None = None

    def listener(self, profile: ModelProfile) -> Listener:
        """Return the callbacks with which a model call of this profile writes to the stream."""
        return Listener(self.write, self._think if profile.reasoning == "stream" else None)

    def write(self, text: str) -> None:
        """Emit the text soon. The thread that reads the model calls this, and does not wait."""
        self._add(StreamChunk, text)

    def _think(self, text: str) -> None:
        self._add(ReasoningChunk, text)

    def _add(self, kind: type[StreamChunk], text: str) -> None:
        with self._changed:
            if self._closed:
                return
            self._enqueue(kind, text)
            if self._in_flight or not self._queued or self._ended:
                return
            self._in_flight = True
        self._emit()

    def close(self, whole: bool) -> LeaseStatus:
        """Wait until the chunk in flight is acknowledged, and all other text if the reply is `whole`, else drop that.

        Return the status of the lease. If a chunk could not be emitted, raise its error.
        """
        with self._changed:
            self._closed = True
            if whole and self._surrogate:
                self._queued.append((StreamChunk, well_formed(self._surrogate)))
            if not whole:
                self._queued.clear()
            sends = bool(self._queued) and not self._in_flight and not self._ended
            self._in_flight = self._in_flight or sends
        if sends:
            self._emit()
        with self._changed:
            self._changed.wait_for(lambda: not self._in_flight)
            self.truncated = bool(self._queued)
            if self._error is not None:
                raise self._error
            return self._lease_status

    @property
    def _ended(self) -> bool:
        return self._error is not None or not self._lease_status or self._cancellation.requested

    def _enqueue(self, kind: type[StreamChunk], text: str) -> None:
        """Queue the text. If it ends in half a character (a surrogate, as JSON escapes it), keep that for later."""
        if kind is StreamChunk:
            text = self._surrogate + text
            self._surrogate = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
            text = text.removesuffix(self._surrogate)
        if text:
            if not self._queued:
                self._queued_at = self._engine.clock.now()
            self._queued.append((kind, well_formed(text)))

    def _emit(self) -> None:
        """Emit the queued text of one kind as one chunk. Only the thread that has set `_in_flight` calls this."""
        with self._changed:
            kind, since = self._queued[0][0], self._queued_at
            pieces = [text for of, text in takewhile(lambda piece: piece[0] is kind, self._queued)]
            del self._queued[: len(pieces)]
            text = "".join(pieces)
            self.chunk_count += 1
            if kind is StreamChunk:
                self.texts.append(text)
            self._bytes_out += len(text.encode())
            used = self._spent.plus(TokenUsage(0, estimate_tokens_of_bytes(self._bytes_out)))
            chunk = Chunk(self.chunk_count, self._message(kind, text), used)
        try:
            self._engine.tasks.leases.emit(self._claim, chunk, lambda answer: self._on_ack(answer, since))
        except Exception as error:  # `close` raises it
            self._on_ack(error, since)

    def _on_ack(self, answer: LeaseStatus | Exception, since: float) -> None:
        """Handle the acknowledgement of the chunk in flight, or its error. Emit the next chunk, if any. Any thread."""
        if answer is LeaseStatus.CANCEL_REQUESTED:
            self._cancellation.request()
        with self._changed:
            if isinstance(answer, Exception):
                self._error = answer
            else:
                self._lease_status = answer
            more = self._in_flight = bool(self._queued) and not self._ended
            self._changed.notify_all()
        if self._error is not None or not self._lease_status:
            self._cancellation.abandon()
        elif more:
            self._emit()
        self._engine.services.telemetry.record(STREAM_LAG_SECONDS, self._engine.clock.now() - since)

    def _message(self, kind: type[StreamChunk], text: str) -> StreamChunk:
        order = self._claim.assignment
        return kind(
            task_id=order.task_id,
            step_id=self._step_id,
            agent_name=self._claim.snapshot.position.agent,
            attempt=order.attempt,
            text="" if self._held else text,
        )
