"""tool_failure: the exception of a tool as bounded, printable lines, without secrets."""

import traceback
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import Any, Final

from roboco.domain.log_text import log_text

Mask = Callable[[str], str]
"""Replaces secrets in a text."""

LINE_MOST: Final = 300
"""Characters of a line."""
CHAIN_MOST: Final = 3
"""Exceptions that are shown: the one that was raised, and its causes."""
TEXT_MOST: Final = 1_000_000
"""Characters of an exception's text that are read: secrets and arguments are looked for before it is cut."""
WORDS_MOST: Final = 100
"""Texts among the arguments of a call that are left out."""
SHORTEST: Final = 4
"""Characters of such a text at least."""
_OWN: Final = "roboco."
"""The prefix of the modules whose frames are left out before the tool's own."""


def error_text(error: BaseException) -> str:
    """Return the kind and the text of the exception, also if reading its text raises any exception, as SystemExit."""
    try:
        text = str(error)
    except BaseException as broken:
        text = f"(its text cannot be read: {type(broken).__name__})"
    if len(text) > TEXT_MOST:
        text = f"(a text of {len(text)} characters)"
    return f"{type(error).__name__}: {text}"


def without_arguments(args: Mapping[str, Any], mask: Mask) -> Mask:
    """Return a mask that leaves out also the texts among the arguments of a call, which a model or a user has said."""
    found = islice((text for text in _texts(args) if len(text) >= SHORTEST), WORDS_MOST)
    words = sorted({form for text in found for form in (text, repr(text)[1:-1])}, key=len, reverse=True)

    def masked(text: str) -> str:
        for word in words:
            text = text.replace(word, "...")
        return mask(text)

    return masked


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case dict():
            for item in value.values():
                yield from _texts(item)
        case _:
            return


def failure_lines(error: BaseException, frames: int, mask: Mask) -> tuple[str, ...]:
    """Return the last frames of each exception of the chain and its text; the exception that was raised is last."""
    lines = (line for one in reversed(list(_chain(error))) for line in _lines(one, frames))
    return tuple(log_text(mask(line), LINE_MOST) for line in lines)


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
