"""A limited number of tries, with a growing random delay between them."""

import random
import time
from collections.abc import Iterator

MAX_TRIES = 6
"""Tries before the caller gives up."""
_FIRST_DELAY = 0.01
"""Seconds of the first delay at most. It doubles each time: 0.3 seconds for all tries."""


def tries() -> Iterator[int]:
    """Yield the number of each try. Wait a random time between tries, so that workers do not collide again."""
    for number in range(MAX_TRIES):
        if number:
            time.sleep(random.uniform(0.5, 1) * _FIRST_DELAY * 2 ** (number - 1))  # noqa: S311 - no secret
        yield number
