"""Calls to a Redis that does not answer."""

import threading
from collections.abc import Callable

import redis

from roboco.errors import TransientError
from tests.support.stack import until

SOON = 30.0
"""Seconds within which a call gives up: the pauses between its tries are about two."""


def wait_for_error(use: Callable[[], object]) -> str:
    """What the call says when it gives up, up to the first colon; AssertionError if it does not do so soon."""
    text_chunk: list[str] = []

    def run() -> None:
        try:
            use()
        except (redis.RedisError, TransientError) as error:
            text_chunk.append(str(error))

    threading.Thread(target=run, daemon=True).start()
    until(lambda: text_chunk, SOON, "the call has given up")
    return text_chunk[0].partition(":")[0]
