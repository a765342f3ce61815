"""read_line: one line from the terminal; a signal always interrupts the wait for it."""

import os
import select
import sys
from collections.abc import Callable
from typing import Final

_PASTE_SECONDS: Final = 0.05
"""Seconds within which the next line of a pasted text arrives."""
_SELECT_TIMEOUT: Final = 0.1
"""Seconds after which the loop notices a signal that arrived just before it started to wait."""


def read_line(prompt: str) -> str:
    """Return the next line that the user types, without its end. Raises EOFError at the end of the input.

    `input` would wait for the end of the line before it notices a signal. And Ctrl-C empties the terminal's line buffer
    between `select` and `read`: so reads from a terminal must not block.
    """
    sys.stdout.write(prompt)
    sys.stdout.flush()
    keys = sys.stdin.fileno()
    if not os.isatty(keys):
        return _read(lambda: sys.stdin.readline().encode(), keys)
    terminal = os.open(os.ttyname(keys), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        return _read(lambda: os.read(terminal, 4096), terminal)
    finally:
        os.close(terminal)


def input_waits() -> bool:
    """Return True if a further line has arrived already: it was pasted together with the one before."""
    return bool(select.select([sys.stdin.fileno()], [], [], _PASTE_SECONDS)[0])


def _read(read: Callable[[], bytes], keys: int) -> str:
    line = b""
    while not line.endswith(b"\n"):
        if not select.select([keys], [], [], _SELECT_TIMEOUT)[0]:
            continue
        try:
            piece = read()
        except BlockingIOError:
            continue
        if not piece:
            break
        line += piece
    if not line:
        raise EOFError
    return line.decode(errors="replace").removesuffix("\n")
