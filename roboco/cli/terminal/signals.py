"""Signals that end a command: each becomes one exception, and none interrupts the clean-up."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """Signal `number` has asked the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_code(self) -> int:
        """The exit code that a shell reports for a process that this signal has ended."""
        return 128 + self.number


def install_signal_handlers() -> None:
    """Have the signals that end a process raise Interrupted in the main thread. SIGHUP stays ignored under `nohup`."""
    for number in _ENDING_SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


@contextmanager
def ignore_signals() -> Iterator[None]:
    """Ignore those signals inside the block."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def record_ctrl_c() -> Iterator[Callable[[], bool]]:
    """Inside the block, record Ctrl-C instead of raising. Yield a function that returns True once after each Ctrl-C.

    So Ctrl-C interrupts no operation in its middle. A second Ctrl-C before the function is called raises Interrupted.
    """
    pressed = False

    def record(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            _interrupt(number, frame)
        pressed = True

    def was_pressed() -> bool:
        nonlocal pressed
        was, pressed = pressed, False
        return was

    with _ctrl_c_handler(record):
        yield was_pressed


@contextmanager
def raise_on_ctrl_c() -> Iterator[None]:
    """Inside the block, Ctrl-C raises Interrupted, also within `record_ctrl_c`."""
    with _ctrl_c_handler(_interrupt):
        yield


@contextmanager
def _ctrl_c_handler(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(number: int, _: FrameType | None) -> None:
    raise Interrupted(number)
