"""token_stream: the text of a model on its way to the followers of a task, while its turn runs.

    model's thread ─► write ─► emit ─► acknowledged with the status of the lease: held, cancellation requested, or lost
                       ▲        │
                       └────────┘ one chunk is in flight at a time; text that arrives meanwhile is the next chunk

One chunk in flight keeps the order: a chunk is sent after Redis has acknowledged the one before. The number of a chunk
makes an emit idempotent, and the lease's token fences it: Redis rejects a chunk of an attempt that another one has
replaced. If Redis does not acknowledge a chunk, the turn fails, and the next attempt streams its text anew.
"""

import threading

from roboco.domain.canonical_json import well_formed
from roboco.domain.ids import step_id_at
from roboco.domain.stream.event import StreamChunk
from roboco.domain.tokens import tokens_of
from roboco.engine.engine import Engine
from roboco.engine.execution.cancellation import Ending
from roboco.ports import Chunk, LeaseStatus, TurnClaim, Used
from roboco.ports.telemetry import STREAM_LAG_SECONDS


class TokenStream:
    """The output of a turn."""

    def __init__(self, engine: Engine, claim: TurnClaim, ending: Ending, tokens_in: int) -> None:
        self.texts: list[str] = []
        """The chunks that were emitted; final once `finish` has returned."""
        self.cut = False
        """True if some text was dropped at the end; final once `finish` has returned."""
        self._engine = engine
        self._claim = claim
        self._ending = ending
        self._tokens_in = tokens_in
        self._step_id = step_id_at(claim.order.task_id, claim.order.seq)
        self._size = 0
        self._changed = threading.Condition()
        self._waiting: list[str] = []
        self._since = 0.0
        self._half = ""
        self._busy = self._finished = False
        self._grip = LeaseStatus.HELD
        self._failed: Exception | None = None

    def say(self, text: str) -> None:
        """Emit the text soon. The thread that reads the model calls this, and does not wait."""
        with self._changed:
            if self._finished:
                return
            self._put(text)
            if self._busy or not self._waiting or self._over:
                return
            self._busy = True
        self._send()

    def finish(self, whole: bool) -> LeaseStatus:
        """Wait until the chunk in flight is acknowledged, and all other text if the reply is `whole`, else drop that.

        Return the status of the lease. If a chunk could not be emitted, raise its error.
        """
        with self._changed:
            self._finished = True
            if whole and self._half:
                self._waiting.append(well_formed(self._half))
            if not whole:
                self._waiting.clear()
            sends = bool(self._waiting) and not self._busy and not self._over
            self._busy = self._busy or sends
        if sends:
            self._send()
        with self._changed:
            self._changed.wait_for(lambda: not self._busy)
            self.cut = bool(self._waiting)
            if self._failed is not None:
                raise self._failed
            return self._grip

    @property
    def _over(self) -> bool:
        return self._failed is not None or not self._grip or self._ending.asked

    def _put(self, text: str) -> None:
        """Queue the text. If it ends in half a character (a surrogate, as JSON escapes it), keep that for later."""
        text = self._half + text
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        if said := text.removesuffix(self._half):
            if not self._waiting:
                self._since = self._engine.clock.now()
            self._waiting.append(well_formed(said))

    def _send(self) -> None:
        """Emit the queued text as one chunk. Only the thread that has set `_busy` calls this."""
        with self._changed:
            text, since = "".join(self._waiting), self._since
            self._waiting.clear()
            self.texts.append(text)
            self._size += len(text.encode())
            used = Used(self._tokens_in, tokens_of(self._size))
            chunk = Chunk(len(self.texts), self._message(text), used)
        try:
            self._engine.turns.emit(self._claim, chunk, lambda answer: self._told(answer, since))
        except Exception as error:  # `finish` waits for it
            self._told(error, since)

    def _told(self, answer: LeaseStatus | Exception, since: float) -> None:
        """Handle the acknowledgement of the chunk in flight, or its error. Emit the next chunk, if any. Any thread."""
        if answer is LeaseStatus.CANCEL_REQUESTED:
            self._ending.ask()
        with self._changed:
            if isinstance(answer, Exception):
                self._failed = answer
            else:
                self._grip = answer
            again = self._busy = bool(self._waiting) and not self._over
            self._changed.notify_all()
        if self._failed is not None or not self._grip:
            self._ending.drop()
        elif again:
            self._send()
        self._engine.telemetry.note(STREAM_LAG_SECONDS, self._engine.clock.now() - since)

    def _message(self, text: str) -> StreamChunk:
        order = self._claim.order
        return StreamChunk(
            task_id=order.task_id,
            step_id=self._step_id,
            agent_name=self._claim.task.agent,
            attempt=order.attempt,
            text=text,
        )
