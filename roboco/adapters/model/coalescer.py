"""Coalescing of the texts of a fast model into fewer, larger ones."""

import asyncio

from roboco.ports import Say

GATHER = 0.005
"""Minimum seconds between two texts. Texts that arrive meanwhile are joined. The first is sent immediately."""


class Paced:
    """Joins texts and passes them on. Create and use it in the thread of the running loop."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._loop = asyncio.get_running_loop()
        self._due = 0.0
        self._held: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def say(self, text: str) -> None:
        """Pass the text on now, or with later texts if less than COALESCE_INTERVAL passed since the last one."""
        self._held.append(text)
        if self._timer is None:
            if self._loop.time() >= self._due:
                self.flush()
            else:
                self._timer = self._loop.call_at(self._due, self.flush)

    def flush(self) -> None:
        """Pass on the buffered text now."""
        text = "".join(self._held)
        self.drop()
        self._due = self._loop.time() + GATHER
        if text:
            self._say(text)

    def drop(self) -> None:
        """Discard the buffered text and cancel the timer."""
        self._held.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
