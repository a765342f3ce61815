"""Typed line: one line from the terminal, at which a signal is never overslept."""

import os
import select
import sys
from collections.abc import Callable

_LOOK = 0.1
"""Seconds after which a signal is noticed that came just before the waiting began."""


def typed_line(prompt: str) -> str:
    """The next line that is typed, without its end; EOFError if none comes any more.

    `input` would wait for the line's end before it notices such a signal. And Ctrl-C empties the terminal's line, so
    that what was there to be read may be gone: no read may wait for it.
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


def _read(read: Callable[[], bytes], keys: int) -> str:
    said = b""
    while not said.endswith(b"\n"):
        if not select.select([keys], [], [], _LOOK)[0]:
            continue
        try:
            piece = read()
        except BlockingIOError:
            continue
        if not piece:
            break
        said += piece
    if not said:
        raise EOFError
    return said.decode(errors="replace").removesuffix("\n")
