"""The output of a tool in the worker's log, with the task and the tool.

Celery logs the output of a process without its task. From the first call on, sys.stdout and sys.stderr are streams that
find the call by a context variable, so that calls in several threads are separated. A thread that the tool starts has
another context. Its lines are attributed to the call if no other call runs in this process.
"""

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final, Literal, Self

from roboco.domain.log_text import log_text
from roboco.tools.tool_failure import Mask

MAX_LINES: Final = 200
"""Maximum number of lines of a call that are logged."""
MAX_CHARS: Final = 16 * 1024
"""Maximum number of characters of a call that are read."""
MAX_LINE_CHARS: Final = 1000
"""Maximum number of characters of a line that are logged. Secrets are found before it is truncated."""
STREAM_NAMES: Final = ("stdout", "stderr")
_LINE_BREAK: Final = re.compile(r"[\r\n]+")

_log = logging.getLogger(__name__)
_running_calls: "list[_CallOutput]" = []
_CURRENT_CALL: "ContextVar[_CallOutput | Literal[False] | None]" = ContextVar("roboco_tool_output", default=None)
"""The call whose output is logged, or False while its line is logged: a log handler may print it."""


@contextmanager
def log_output(tool: str, task_id: str, mask: Mask) -> Iterator[None]:
    """Log the output of the block as warnings, as Celery does. Beyond the limits of a call nothing more is logged."""
    output, before = _CallOutput(f"tool {tool!r} of task {task_id}", mask), _CURRENT_CALL.get()

    def leave() -> None:
        _CURRENT_CALL.set(before)
        with suppress(ValueError):
            _running_calls.remove(output)

    for name in STREAM_NAMES:
        if not isinstance(stream := getattr(sys, name), _StreamProxy):
            setattr(sys, name, _StreamProxy(name, stream))
    try:
        _running_calls.append(output)
        _CURRENT_CALL.set(output)
        yield
    finally:  # the soft time limit raises once, at any line: the second call completes a first that it interrupts
        try:
            leave()
        finally:
            leave()
            output.end()


class _CallOutput:
    """The output of one call."""

    def __init__(self, call: str, mask: Mask) -> None:
        self._call = call
        self._mask = mask
        self._partial_lines = dict.fromkeys(STREAM_NAMES, "")
        self._lines_left = MAX_LINES
        self._chars_left = MAX_CHARS

    def write(self, name: str, text: str) -> None:
        """Log the lines that the text completes, up to the limits; not the rest, in which a secret may be truncated."""
        if self._chars_left <= 0:
            return
        *lines, rest = _LINE_BREAK.split(self._partial_lines[name] + text[: self._chars_left])
        for line in lines:
            self._log_line(name, line)
        self._partial_lines[name] = rest
        self._chars_left -= len(text)
        if self._chars_left <= 0 or self._lines_left <= 0:
            self._chars_left, self._partial_lines = 0, dict.fromkeys(STREAM_NAMES, "")
            self._warn("%s: further output is not logged (%d lines, %d characters)", MAX_LINES, MAX_CHARS)

    def end(self) -> None:
        """Log lines that were not completed."""
        for name, rest in self._partial_lines.items():
            self._log_line(name, rest)

    def _log_line(self, name: str, line: str) -> None:
        if self._lines_left > 0 and line.strip():
            self._lines_left -= 1
            self._warn("%s, %s: %s", name, log_text(self._mask(line), MAX_LINE_CHARS))

    def _warn(self, message: str, *facts: str | int) -> None:
        token = _CURRENT_CALL.set(False)
        try:
            _log.warning(message, self._call, *facts)
        finally:
            _CURRENT_CALL.reset(token)


class _StreamProxy:
    """Replaces sys.stdout or sys.stderr; other attributes are those of the stream below."""

    def __init__(self, name: str, below: Any) -> None:
        self._name = name
        self._below = below

    def write(self, text: str) -> int:
        """Pass the text to the call that prints it, or to the stream below."""
        output, calls = _CURRENT_CALL.get(), _running_calls[:2]
        if output is None and len(calls) == 1:
            output = calls[0]
        if output:
            output.write(self._name, text)
        else:
            self._below.write(text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write each of the texts."""
        for line in lines:
            self.write(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Flush the stream below. It is the worker's and stays open."""
        self._below.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)
