"""closing: end streams as soon as the process is asked to exit, before its server waits for open responses.

    SIGTERM ─► handler ─► gateway.closing is set (in the event loop) ─► streams end at an event, /readyz says 503
                 └─► the handler of the server (uvicorn, gunicorn): takes no connections, waits for responses, exits

A server ends the lifespan of an application only after the last response. So the lifespan of the application puts its
own handler before that of the server. A second signal goes to both again and is harmless.
"""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import FrameType
from typing import Any, Final

EXIT_SECONDS: Final = 4.5
"""Seconds after the signal in which `roboco serve` exits, even if a thread waits for a silent store."""
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def set_at_signals(closing: asyncio.Event, exit_seconds: float | None = None) -> Iterator[None]:
    """Set the event at the first SIGTERM or SIGINT within the block, and then call the handler of before.

    With `exit_seconds` the process ends that many seconds later in any case. In a thread that is not the main one the
    block does nothing: Python delivers signals to the main thread alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, Any] = {number: signal.getsignal(number) for number in _SIGNALS}

    def on_signal(number: int, frame: FrameType | None) -> None:
        if exit_seconds is not None and not closing.is_set():
            _exit_after(exit_seconds)
        loop.call_soon_threadsafe(closing.set)
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    for number in _SIGNALS:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is on_signal:
                signal.signal(number, handler)


@asynccontextmanager
async def racing(*works: Awaitable[Any]) -> AsyncIterator[Sequence[asyncio.Future[Any]]]:
    """Yield the works once the first one is done. At the end of the block all have ended, the others cancelled."""
    futures = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        yield futures
    finally:
        for future in futures:
            future.cancel()
        await asyncio.wait(futures)  # else a work still uses what its caller closes now


def _exit_after(seconds: float) -> None:
    """End the process after these seconds. The gateway holds no state, so nothing is lost."""
    timer = threading.Timer(seconds, os._exit, (0,))
    timer.daemon = True
    timer.start()
