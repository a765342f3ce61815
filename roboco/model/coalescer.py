"""Coalescing of the texts of a fast model into fewer, larger ones."""

import asyncio

from roboco.ports.model import OnText

COALESCE_INTERVAL = 0.005
"""Minimum seconds between two texts. Texts that arrive meanwhile are joined, and so are those of one read."""


class TextCoalescer:
    """Joins texts and passes them on. Create and use it in the thread of the running loop."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._loop = asyncio.get_running_loop()
        self._next_flush = 0.0
        self._buffer: list[str] = []
        self._timer: asyncio.Handle | None = None

    def add(self, text: str) -> None:
        """Pass the text on with the others of this read, at the earliest COALESCE_INTERVAL after the last one."""
        self._buffer.append(text)
        if self._timer is None:
            waits = self._loop.time() < self._next_flush
            self._timer = (
                self._loop.call_at(self._next_flush, self.flush) if waits else self._loop.call_soon(self.flush)
            )

    def flush(self) -> None:
        """Pass on the buffered text now."""
        text = "".join(self._buffer)
        self.discard()
        self._next_flush = self._loop.time() + COALESCE_INTERVAL
        if text:
            self._on_text(text)

    def discard(self) -> None:
        """Discard the buffered text and cancel the timer."""
        self._buffer.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
