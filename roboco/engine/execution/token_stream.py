"""speech: what a model says, on its way to those who follow, while its turn waits.

    model's thread ─► say ─► emit ─► told: ours, or asked to end, or lost
                       ▲      one at a time; what comes meanwhile goes out together, next
                       └──────┘

Nothing is said out of order or twice. What Redis did not answer for fails the turn, and the next attempt says it anew.
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
    """What a turn says. `texts` are the chunks that went out, and `cut` whether something was left unsaid at the end.

    Both are as they stay once `finish` has returned.
    """

    def __init__(self, engine: Engine, claim: TurnClaim, ending: Ending, tokens_in: int) -> None:
        self.texts: list[str] = []
        self.cut = False
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
        """Send the text on, soon; from the thread that reads the model, which does not wait."""
        with self._changed:
            if self._finished:
                return
            self._put(text)
            if self._busy or not self._waiting or self._over:
                return
            self._busy = True
        self._send()

    def finish(self, whole: bool) -> LeaseStatus:
        """Wait until what was said has gone out, all of it if the answer is `whole`: how the lease stands.

        Raises what kept it from going out.
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
        """Keep the text, but for the half of a character at its end (a surrogate, as JSON escapes it)."""
        text = self._half + text
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        if said := text.removesuffix(self._half):
            if not self._waiting:
                self._since = self._engine.clock.now()
            self._waiting.append(well_formed(said))

    def _send(self) -> None:
        """Send what waits; only who has made this busy does."""
        with self._changed:
            text, since = "".join(self._waiting), self._since
            self._waiting.clear()
            self.texts.append(text)
            self._size += len(text.encode())
            used = Used(self._tokens_in, tokens_of(self._size))
            chunk = Chunk(len(self.texts), self._message(text), used)
        try:
            self._engine.turns.emit(self._claim, chunk, lambda answer: self._told(answer, since))
        except Exception as error:  # whoever waits for the end has to be told
            self._told(error, since)

    def _told(self, answer: LeaseStatus | Exception, since: float) -> None:
        """What came of the chunk that was sent; from any thread."""
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
