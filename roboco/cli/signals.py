"""Signals that end a command: Ctrl-C and its kin become one exception, and cleaning up is left in peace."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """The process was asked to end by signal `number`."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_code(self) -> int:
        """The shell's code of a process that this signal ended."""
        return 128 + self.number


def interruptible() -> None:
    """Have the signals that end a process raise Interrupted in the main thread; `nohup` is respected."""
    for number in _ENDING:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Meanwhile those signals do nothing."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, _: FrameType | None) -> None:
    raise Interrupted(number)
