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

from roboco.domain.log_text import log_text
from roboco.tools.tool_failure import Mask

MAX_LINES: Final = 200
"""Maximum number of lines of a call that are logged."""
MAX_CHARS: Final = 16 * 1024
"""Maximum number of characters of a call that are logged."""
MAX_LINE_CHARS: Final = 1000
"""Maximum number of characters of a line that are logged."""
MAX_BUFFERED_CHARS: Final = 2 * MAX_LINE_CHARS
"""Maximum number of characters of a line that are read before it is truncated, so that a secret at its end is found."""
STREAM_NAMES: Final = ("stdout", "stderr")
_LINE_BREAK: Final = re.compile(r"[\r\n]+")

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_running_calls: "list[_CallOutput]" = []
_CURRENT_CALL: "ContextVar[_CallOutput | None]" = ContextVar("roboco_tool_output", default=None)
_thread_state = threading.local()


@contextmanager
def log_output(tool: str, task_id: str, mask: Mask) -> Iterator[None]:
    """Log the output of the block as warnings, as Celery does. Beyond the limits of a call nothing more is logged."""
    output, before = _CallOutput(f"tool {tool!r} of task {task_id}", mask), _CURRENT_CALL.get()
    try:
        _enter(output)
        yield
    finally:  # the soft time limit raises once, at any line: the second _leave completes a first that it interrupts
        try:
            _leave(output, before)
        finally:
            _leave(output, before)
            output.end()


def _enter(output: "_CallOutput") -> None:
    with _lock:
        if not _running_calls:
            _install()
        _running_calls.append(output)
    _CURRENT_CALL.set(output)


def _leave(output: "_CallOutput", before: "_CallOutput | None") -> None:
    """Undo `_enter`, also if it was interrupted. Idempotent."""
    _CURRENT_CALL.set(before)
    with _lock:
        if output in _running_calls:
            _running_calls.remove(output)
        if not _running_calls:
            _uninstall()


class _CallOutput:
    """The output of one call."""

    def __init__(self, call: str, mask: Mask) -> None:
        self._call = call
        self._mask = mask
        self._partial_lines = dict.fromkeys(STREAM_NAMES, "")
        self._line_dropped = dict.fromkeys(STREAM_NAMES, False)
        self._lines_left = MAX_LINES
        self._chars_left = MAX_CHARS

    def write(self, name: str, text: str) -> None:
        """Log the lines that the text completes. The rest of a line that is too long is dropped."""
        if self._chars_left <= 0:
            return
        *lines, rest = _LINE_BREAK.split(self._partial_lines[name] + text[: self._chars_left])
        self._chars_left -= len(text)
        for line in lines:
            self._log_line(name, line)
        if len(rest) > MAX_BUFFERED_CHARS:
            self._log_line(name, rest)
            rest, self._line_dropped[name] = "", True
        self._partial_lines[name] = rest
        if self._chars_left <= 0 or self._lines_left <= 0:
            self._stop_logging()

    def end(self) -> None:
        """Log lines that were not completed."""
        for name, rest in self._partial_lines.items():
            self._log_line(name, rest)

    def _log_line(self, name: str, line: str) -> None:
        dropped, self._line_dropped[name] = self._line_dropped[name], False
        if self._lines_left > 0 and line.strip() and not dropped:
            self._lines_left -= 1
            _log_warning("%s, %s: %s", self._call, name, log_text(self._mask(line), MAX_LINE_CHARS))

    def _stop_logging(self) -> None:
        """Log nothing more, not even the rest of a started line: a secret may be truncated in it."""
        self._lines_left = self._chars_left = 0
        self._partial_lines = dict.fromkeys(STREAM_NAMES, "")
        _log_warning("%s: further output is not logged (%d lines, %d characters)", self._call, MAX_LINES, MAX_CHARS)


def _log_warning(message: str, *facts: str | int) -> None:
    """Log the line. If a log handler prints it, that output is not logged again."""
    _thread_state.log = True
    try:
        _log.warning(message, *facts)
    finally:
        _thread_state.log = False


class _StreamProxy:
    """Replaces sys.stdout or sys.stderr while calls run; other attributes are those of the stream below."""

    def __init__(self, name: str, below: Any) -> None:
        self._name = name
        self.below = below

    def write(self, text: str) -> int:
        """Pass the text to the call that prints it, or to the stream below."""
        output = None if getattr(_thread_state, "log", False) else _current_call()
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


def _current_call() -> _CallOutput | None:
    own = _CURRENT_CALL.get()
    if own is not None:
        return own
    calls = _running_calls[:2]
    return calls[0] if len(calls) == 1 else None


def _install() -> None:
    for name in STREAM_NAMES:
        setattr(sys, name, _StreamProxy(name, getattr(sys, name)))


def _uninstall() -> None:
    """Restore the streams, unless the tool has replaced them."""
    for name in STREAM_NAMES:
        stream = getattr(sys, name)
        if isinstance(stream, _StreamProxy):
            setattr(sys, name, stream.below)
