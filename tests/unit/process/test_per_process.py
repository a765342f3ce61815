"""PerProcess: a process creates one value, also if several threads ask for the first one at the same time."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

from roboco.process.per_process import PerProcess


def test_per_process_two_concurrent_threads_share_one_value() -> None:
    """A second engine would be dropped after its first turn, and leave its connection to the model server open."""
    both = threading.Barrier(2)
    numbers = count(1)

    def create() -> int:
        with suppress(threading.BrokenBarrierError):
            both.wait(0.2)  # passes before the timeout only if two threads create a value
        return next(numbers)

    per_process = PerProcess(create)
    with ThreadPoolExecutor(2) as pool:
        assert [pending.result() for pending in [pool.submit(per_process), pool.submit(per_process)]] == [1, 1]


def test_per_process_forked_child_creates_its_own_value_while_the_parent_creates_one() -> None:
    creating, forked = threading.Event(), threading.Event()
    parent = os.getpid()

    def create() -> int:
        if os.getpid() == parent:
            creating.set()
            assert forked.wait(60)
        return os.getpid()

    per_process = PerProcess(create)
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(per_process)
        assert creating.wait(60)
        if (child := os.fork()) == 0:
            signal.alarm(30)  # ends the child if it waits for the lock of its parent
            os._exit(0 if per_process() == os.getpid() else 1)
        _, status = os.waitpid(child, 0)
        forked.set()
        assert os.waitstatus_to_exitcode(status) == 0
        assert pending.result() == parent
