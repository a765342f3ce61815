"""Calls to a Redis that does not answer."""

import threading
from collections.abc import Callable

import redis

from roboco.errors import TransientError
from tests.support.stack import until

ERROR_TIMEOUT = 60.0
"""Seconds within which a call raises its error; the delays between its attempts are about two seconds."""


def wait_for_error(use: Callable[[], object]) -> str:
    """Return the message of the call's error up to the first colon. Raise AssertionError if it takes too long."""
    messages: list[str] = []

    def run() -> None:
        try:
            use()
        except (redis.RedisError, TransientError) as error:
            messages.append(str(error))

    threading.Thread(target=run, daemon=True).start()
    until(lambda: messages, ERROR_TIMEOUT, "the call has failed")
    return messages[0].partition(":")[0]
