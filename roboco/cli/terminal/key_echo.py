"""key_echo: whether the terminal shows the keys that the user types, such as ^C, in the text that a command prints."""

import os
import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

_LOCAL_FLAGS: Final = 3
"""The place of the flags with ECHO among the attributes of a terminal."""


@contextmanager
def key_echo(shown: bool) -> Iterator[None]:
    """Show the keys inside the block, or hide them. Use it in the main thread only.

    The terminal is as before after the block, and shows keys while the command is suspended, or if SIGQUIT ends it.
    Without a terminal, or in the background, nothing changes.
    """
    before = _is_shown()
    if before is None:
        yield
        return

    def suspend_or_quit(number: int, _: FrameType | None) -> None:
        _set(True)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        signal.signal(number, suspend_or_quit)

    handlers = {
        signal.SIGTSTP: suspend_or_quit,
        signal.SIGQUIT: suspend_or_quit,
        signal.SIGCONT: lambda *_: _set(shown),
    }
    kept = {number: handler for number, handler in handlers.items() if signal.getsignal(number) is not signal.SIG_IGN}
    replaced = {number: signal.signal(number, handler) for number, handler in kept.items()}
    try:
        _set(shown)
        yield
    finally:
        _set(before)
        for number, handler in replaced.items():
            signal.signal(number, handler)


def drop_typed_keys() -> None:
    """Drop the keys that were typed before a question: the terminal has not shown them."""
    if sys.stdin.isatty():
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _is_shown() -> bool | None:
    """Return True if the terminal shows keys, False if it hides them, or None if this process has no terminal."""
    return bool(_attributes()[_LOCAL_FLAGS] & termios.ECHO) if _has_terminal() else None


def _set(shown: bool) -> None:
    """Show or hide keys, if the terminal is still there and the process in its foreground: else it would be stopped."""
    with suppress(termios.error, OSError):
        if not _has_terminal():
            return
        attributes = _attributes()
        flags = attributes[_LOCAL_FLAGS]
        attributes[_LOCAL_FLAGS] = flags | termios.ECHO if shown else flags & ~termios.ECHO
        termios.tcsetattr(sys.stdout, termios.TCSANOW, attributes)


def _attributes() -> list[Any]:
    return termios.tcgetattr(sys.stdout)


def _has_terminal() -> bool:
    try:
        return sys.stdout.isatty() and os.tcgetpgrp(sys.stdout.fileno()) == os.getpgrp()
    except OSError:  # it controls another session
        return False
