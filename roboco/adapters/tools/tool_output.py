"""The output of a tool in the worker's log, with the task and the tool.

Celery logs the output of a process without its task. During a call, sys.stdout and sys.stderr are streams that find the
call by a context variable, so that calls in several threads are separated. A thread that the tool starts has another
context. Its lines are attributed to the call if no other call runs in this process.
"""

import logging
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Self

from roboco.adapters.tools.tool_failure import Mask
from roboco.domain.log_text import log_text

LINES_MOST: Final = 200
"""Maximum number of lines of a call that are logged."""
CHARACTERS_MOST: Final = 16 * 1024
"""Maximum number of characters of a call that are logged."""
LINE_MOST: Final = 1000
"""Maximum number of characters of a line that are logged."""
HELD_MOST: Final = 2 * LINE_MOST
"""Maximum number of characters of a line that are read before it is truncated, so that a secret at its end is found."""
NAMES: Final = ("stdout", "stderr")
_BREAK: Final = re.compile(r"[\r\n]+")

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_calls: "list[_Output]" = []
_CALL: "ContextVar[_Output | None]" = ContextVar("roboco_tool_output", default=None)
_inside = threading.local()


@contextmanager
def log_output(tool: str, task_id: str, mask: Mask) -> Iterator[None]:
    """Log the output of the block as warnings, as Celery does. Beyond the limits of a call nothing more is logged."""
    output, before = _Output(f"tool {tool!r} of task {task_id}", mask), _CALL.get()
    try:
        _begin(output)
        yield
    finally:  # the soft time limit raises once, at any line: the second _leave completes a first that it interrupts
        try:
            _leave(output, before)
        finally:
            _leave(output, before)
            output.end()


def _begin(output: "_Output") -> None:
    with _lock:
        if not _calls:
            _install()
        _calls.append(output)
    _CALL.set(output)


def _leave(output: "_Output", before: "_Output | None") -> None:
    """Undo `_begin`, also if it was interrupted. Idempotent."""
    _CALL.set(before)
    with _lock:
        if output in _calls:
            _calls.remove(output)
        if not _calls:
            _uninstall()


class _Output:
    """The output of one call."""

    def __init__(self, call: str, mask: Mask) -> None:
        self._call = call
        self._mask = mask
        self._rest = dict.fromkeys(NAMES, "")
        self._long = dict.fromkeys(NAMES, False)
        self._lines = LINES_MOST
        self._characters = CHARACTERS_MOST

    def write(self, name: str, text: str) -> None:
        """Log the lines that the text completes. The rest of a line that is too long is dropped."""
        if self._characters <= 0:
            return
        *lines, rest = _BREAK.split(self._rest[name] + text[: self._characters])
        self._characters -= len(text)
        for line in lines:
            self._say(name, line)
        if len(rest) > HELD_MOST:
            self._say(name, rest)
            rest, self._long[name] = "", True
        self._rest[name] = rest
        if self._characters <= 0 or self._lines <= 0:
            self._stop()

    def end(self) -> None:
        """Log lines that were not completed."""
        for name, rest in self._rest.items():
            self._say(name, rest)

    def _say(self, name: str, line: str) -> None:
        dropped, self._long[name] = self._long[name], False
        if self._lines > 0 and line.strip() and not dropped:
            self._lines -= 1
            _put_down("%s, %s: %s", self._call, name, log_text(self._mask(line), LINE_MOST))

    def _stop(self) -> None:
        """Log nothing more, not even the rest of a started line: a secret may be truncated in it."""
        self._lines = self._characters = 0
        self._rest = dict.fromkeys(NAMES, "")
        _put_down("%s: further output is not logged (%d lines, %d characters)", self._call, LINES_MOST, CHARACTERS_MOST)


def _put_down(message: str, *facts: str | int) -> None:
    """Log the line. If a log handler prints it, that output is not logged again."""
    _inside.log = True
    try:
        _log.warning(message, *facts)
    finally:
        _inside.log = False


class _Stream:
    """Replaces sys.stdout or sys.stderr while calls run; other attributes are those of the stream below."""

    def __init__(self, name: str, below: Any) -> None:
        self._name = name
        self.below = below

    def write(self, text: str) -> int:
        """Pass the text to the call that prints it, or to the stream below."""
        output = None if getattr(_inside, "log", False) else _current()
        if output is None:
            self.below.write(text)
        else:
            output.write(self._name, text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write each of the texts."""
        for line in lines:
            self.write(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Flush the stream below. It is the worker's and stays open."""
        self.below.flush()

    def __iter__(self) -> Iterator[str]:
        return iter(self.below)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)


def _current() -> _Output | None:
    own = _CALL.get()
    if own is not None:
        return own
    calls = _calls[:2]
    return calls[0] if len(calls) == 1 else None


def _install() -> None:
    for name in NAMES:
        setattr(sys, name, _Stream(name, getattr(sys, name)))


def _uninstall() -> None:
    """Restore the streams, unless the tool has replaced them."""
    for name in NAMES:
        stream = getattr(sys, name)
        if isinstance(stream, _Stream):
            setattr(sys, name, stream.below)
