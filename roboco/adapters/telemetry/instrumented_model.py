"""A model whose calls are measured. It wraps the model only if telemetry is on."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

from roboco.errors import ModelError
from roboco.ports import Doing, Model, ModelStream, Reply, Request, Say, Telemetry, Work
from roboco.ports.telemetry import FIRST_TOKEN_SECONDS, OPEN_STREAMS


class ObservedModel:
    """Calls another model, and records the number of running calls and the time to their first tokens."""

    def __init__(self, model: Model, telemetry: Telemetry) -> None:
        self._model = model
        self._telemetry = telemetry

    def stream(self, request: Request, say: Say | None = None) -> ModelStream:
        """Start the call and return its stream."""
        return _ObservedStream(self._model, request, self._telemetry, say)


class _ObservedStream:
    def __init__(self, model: Model, request: Request, telemetry: Telemetry, say: Say | None) -> None:
        self._say = say
        self._begun = False
        self._telemetry = telemetry
        self._model_name = request.profile.model
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._work = ExitStack()
        self._doing: Doing = self._work.enter_context(telemetry.work(Work("model", model=self._model_name)))
        self._stream = model.stream(request, None if say is None else self._pass_on)
        telemetry.note(OPEN_STREAMS, 1)
        self._work.callback(telemetry.note, OPEN_STREAMS, -1)

    def __iter__(self) -> Iterator[str | Reply]:
        """Yield the texts, unless a callback receives them, and at the end the Reply."""
        try:
            for piece in self._stream:
                if isinstance(piece, Reply):
                    self._answered(piece)
                else:
                    self._begin()
                yield piece
        except ModelError as error:
            self._doing.tell(error=error.code)
            raise

    def close(self) -> None:
        """Close the connection to the model now, from any thread. Further calls do nothing."""
        self._stream.close()
        with self._lock:
            work, self._work = self._work, ExitStack()
        work.close()

    def wait_closed(self, seconds: float) -> bool:
        """Wait until the connection is closed, at most these seconds. Return True if it is closed."""
        return self._stream.wait_closed(seconds)

    def _pass_on(self, text: str) -> None:
        self._begin()
        if self._say is not None:
            self._say(text)

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._first(time.monotonic() - self._began)

    def _answered(self, reply: Reply) -> None:
        if not self._begun:  # the reply has tool calls only
            self._first(reply.first_token_ms / 1000)
        self._doing.tell(
            tokens_in=reply.tokens_in,
            tokens_out=reply.tokens_out,
            finish_reason=reply.finish_reason,
            response_model=reply.model,
        )

    def _first(self, seconds: float) -> None:
        self._telemetry.note(FIRST_TOKEN_SECONDS, seconds, self._model_name)
        self._doing.tell(first_token_seconds=seconds)
