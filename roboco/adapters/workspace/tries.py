"""Tries: a limited number, with a pause that grows between them."""

import random
import time
from collections.abc import Iterator

TRIES = 6
_FIRST = 0.01
"""Seconds of the first pause at most; each further one may be twice as long: 0.3 seconds for all."""


def tries() -> Iterator[int]:
    """Yield the number of each try. Before all but the first, wait a random time, so that workers do not meet again."""
    for number in range(TRIES):
        if number:
            time.sleep(random.uniform(0.5, 1) * _FIRST * 2 ** (number - 1))  # noqa: S311 - no secret
        yield number
