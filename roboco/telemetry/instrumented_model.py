"""A model whose calls are measured. It wraps the model only if telemetry is on."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

from roboco.domain.usage import ModelUsage
from roboco.errors import ModelError
from roboco.ports.model import CallModel, CallProgress, Listener, Reply, Request
from roboco.ports.telemetry import FIRST_TOKEN_SECONDS, OPEN_STREAMS, Operation, OperationSpan, Telemetry


def instrumented(call_model: CallModel, telemetry: Telemetry) -> CallModel:
    """Return calls of the model that record the number of running calls and the time to their first tokens."""
    return lambda request, listener: _InstrumentedStream(call_model, request, telemetry, listener)


class _InstrumentedStream:
    def __init__(
        self, call_model: CallModel, request: Request, telemetry: Telemetry, listener: Listener | None
    ) -> None:
        self._listener = listener
        self._has_text = False
        self._telemetry = telemetry
        self._model_name = request.profile.model
        self._started_at = time.monotonic()
        self._lock = threading.Lock()
        self._open_work = ExitStack()
        self._span: OperationSpan = self._open_work.enter_context(
            telemetry.operation(Operation("model", model=self._model_name))
        )
        forwarding = None if listener is None else replace(listener, on_text=self._forward_text)
        self._stream = call_model(request, forwarding)
        telemetry.record(OPEN_STREAMS, 1)
        self._open_work.callback(telemetry.record, OPEN_STREAMS, -1)

    def __iter__(self) -> Iterator[str | Reply]:
        """Yield the texts, unless a listener receives them, and at the end the Reply."""
        try:
            for piece in self._stream:
                if isinstance(piece, Reply):
                    self._on_reply(piece)
                else:
                    self._on_first_text()
                yield piece
        except ModelError as error:
            self._span.annotate(error=error.code)
            raise

    @property
    def usage(self) -> ModelUsage:
        """The usage of the call until now."""
        return self._stream.usage

    @property
    def progress(self) -> CallProgress:
        """How far the call has come."""
        return self._stream.progress

    def close(self) -> None:
        """Close the connection to the model now, from any thread. Further calls do nothing."""
        self._stream.close()
        with self._lock:
            work, self._open_work = self._open_work, ExitStack()
        work.close()

    def wait_closed(self, seconds: float) -> bool:
        """Wait until the connection is closed, at most these seconds. Return True if it is closed."""
        return self._stream.wait_closed(seconds)

    def _forward_text(self, text: str) -> None:
        self._on_first_text()
        if self._listener is not None:
            self._listener.on_text(text)

    def _on_first_text(self) -> None:
        if not self._has_text:
            self._has_text = True
            self._record_first_token(time.monotonic() - self._started_at)

    def _on_reply(self, reply: Reply) -> None:
        if not self._has_text:  # the reply has tool calls only
            self._record_first_token(reply.first_token_ms / 1000)
        self._span.annotate(
            tokens_in=reply.tokens_in,
            tokens_out=reply.tokens_out,
            finish_reason=reply.finish_reason,
            response_model=reply.model,
        )

    def _record_first_token(self, seconds: float) -> None:
        self._telemetry.record(FIRST_TOKEN_SECONDS, seconds, self._model_name)
        self._span.annotate(first_token_seconds=seconds)
