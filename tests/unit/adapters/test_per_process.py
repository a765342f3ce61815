"""PerProcess: a process makes one value, however many of its threads ask for the first one at once."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

from roboco.adapters.per_process import PerProcess


def test_per_process_two_threads_at_once_share_one_value() -> None:
    """A second engine would be dropped after its first turn, with the connection to the model server still open."""
    both = threading.Barrier(2)
    numbers = count(1)

    def make() -> int:
        with suppress(threading.BrokenBarrierError):
            both.wait(0.2)  # passed at once only if two threads are making a value
        return next(numbers)

    once = PerProcess(make)
    with ThreadPoolExecutor(2) as pool:
        assert [asked.result() for asked in [pool.submit(once), pool.submit(once)]] == [1, 1]


def test_per_process_after_an_error_the_next_caller_makes_it() -> None:
    numbers = count(1)

    def make() -> int:
        if (number := next(numbers)) == 1:
            raise OSError("away")
        return number

    once = PerProcess(make)
    with suppress(OSError):
        once()
    assert (once(), once()) == (2, 2)


def test_per_process_child_makes_its_own_while_a_thread_of_the_parent_makes_one() -> None:
    making, forked = threading.Event(), threading.Event()
    parent = os.getpid()

    def make() -> int:
        if os.getpid() == parent:
            making.set()
            assert forked.wait(30)
        return os.getpid()

    once = PerProcess(make)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(once)
        assert making.wait(30)
        if (child := os.fork()) == 0:
            signal.alarm(30)  # if it waits for its parent's lock, this ends it
            os._exit(0 if once() == os.getpid() else 1)
        _, status = os.waitpid(child, 0)
        forked.set()
        assert os.waitstatus_to_exitcode(status) == 0
        assert asked.result() == parent
