"""Processor time as a ratio: a limit in seconds would fail on a slow machine, or when garbage is collected."""

import time
from collections.abc import Callable

ROUNDS = 5


def assert_costs_at_most(factor: float, action: Callable[[], object], reference: Callable[[], object]) -> None:
    """Check that `action` takes at most `factor` times as long as `reference`.

    Of several rounds the shortest times count, so that what else the machine does makes no difference.
    """
    least = [float("inf"), float("inf")]
    for _ in range(ROUNDS):
        for number, measured in enumerate((reference, action)):
            began = time.thread_time()
            measured()
            least[number] = min(least[number], time.thread_time() - began)
        if least[1] <= factor * least[0]:
            return
    raise AssertionError(f"{least[1]:.6f} s, which is {least[1] / least[0]:.1f} times {least[0]:.6f} s")
