"""Signals that end a command: Ctrl-C and its kin become one exception, and cleaning up is left in peace."""

import signal
from collections.abc import Callable, Iterator
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


@contextmanager
def ctrl_c_noted() -> Iterator[Callable[[], bool]]:
    """Meanwhile Ctrl-C is only noted, and the function says, once, whether it was pressed.

    So nothing is torn apart in its middle. Once more before anybody has asked, it raises Interrupted after all.
    """
    pressed = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            _interrupt(number, frame)
        pressed = True

    def taken() -> bool:
        nonlocal pressed
        was, pressed = pressed, False
        return was

    with _on_ctrl_c(note):
        yield taken


@contextmanager
def ctrl_c_raised() -> Iterator[None]:
    """Meanwhile Ctrl-C raises Interrupted, also where it is only noted otherwise."""
    with _on_ctrl_c(_interrupt):
        yield


@contextmanager
def _on_ctrl_c(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(number: int, _: FrameType | None) -> None:
    raise Interrupted(number)
