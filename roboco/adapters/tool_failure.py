"""tool_failure: the exception of a tool as bounded, printable lines, without secrets."""

import traceback
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final

from roboco.domain.log_text import READ_MOST, log_text

Mask = Callable[[str], str]
"""Replaces secrets in a text."""

LINE_MOST: Final = 300
"""Characters of a line."""
CHAIN_MOST: Final = 3
"""Exceptions that are shown: the one that was raised, and its causes."""
_OWN: Final = "roboco."
"""The prefix of the modules whose frames are left out before the tool's own."""


def error_text(error: BaseException) -> str:
    """Return the kind and the text of the exception, also if its text cannot be read."""
    try:
        text = str(error)
    except Exception as broken:
        text = f"(its text cannot be read: {type(broken).__name__})"
    return f"{type(error).__name__}: {text}"


def failure_lines(error: BaseException, frames: int, mask: Mask) -> tuple[str, ...]:
    """Return the last frames of each exception of the chain and its text; the exception that was raised is last."""
    lines = (line for one in reversed(list(_chain(error))) for line in _lines(one, frames))
    return tuple(log_text(mask(line[:READ_MOST]), LINE_MOST) for line in lines)


def _lines(error: BaseException, frames: int) -> Iterator[str]:
    for frame in traceback.extract_tb(_outside(error.__traceback__), limit=-frames):
        yield f'File "{frame.filename}", line {frame.lineno}, in {frame.name}'
        if frame.line:
            yield f"    {frame.line}"
    yield error_text(error)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception, and those that Python shows as its causes."""
    one: BaseException | None = error
    for _ in range(CHAIN_MOST):
        if one is None:
            return
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _outside(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback from its first frame outside of Roboco on, or whole if it has none."""
    whole = trace
    while trace is not None and str(trace.tb_frame.f_globals.get("__name__", "")).startswith(_OWN):
        trace = trace.tb_next
    return trace or whole
