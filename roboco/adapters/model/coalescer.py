"""Paced: texts of a fast model, gathered so that each is worth its way."""

import asyncio

from roboco.ports import Say

GATHER = 0.005
"""Seconds between two texts at least: what a fast model says meanwhile is gathered into one. The first is sent at
once."""


class Paced:
    """Passes texts on; made and used in the thread of the running loop."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._loop = asyncio.get_running_loop()
        self._due = 0.0
        self._held: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def say(self, text: str) -> None:
        """Pass the text on, with what comes until its time if the last one was a moment ago."""
        self._held.append(text)
        if self._timer is None:
            if self._loop.time() >= self._due:
                self.flush()
            else:
                self._timer = self._loop.call_at(self._due, self.flush)

    def flush(self) -> None:
        """Pass on what is held, now."""
        text = "".join(self._held)
        self.drop()
        self._due = self._loop.time() + GATHER
        if text:
            self._say(text)

    def drop(self) -> None:
        """Forget what is held: nobody wants to hear it any more."""
        self._held.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
