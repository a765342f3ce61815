"""Typed line: one line from the terminal, at which a signal is never overslept."""

import select
import sys

_LOOK = 0.1
"""Seconds after which a signal is noticed that came just before the waiting began."""


def typed_line(prompt: str) -> str:
    """The next line that is typed, without its end; EOFError if none comes any more.

    `input` would wait for the line's end before it notices such a signal.
    """
    sys.stdout.write(prompt)
    sys.stdout.flush()
    while not select.select([sys.stdin], [], [], _LOOK)[0]:
        pass
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n")
