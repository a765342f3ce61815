"""A tool's exception as a limited number of printable lines, without secrets."""

import traceback
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType, TracebackType
from typing import Any, Final

from roboco.domain.log_text import log_text

Mask = Callable[[str], str]
"""Replaces secrets in a text."""

MAX_LINE_CHARS: Final = 300
"""Maximum number of characters of a line."""
MAX_TEXT_CHARS: Final = 2000
"""Maximum number of characters of an exception's type and text; the model gets the same number."""
MAX_CHAIN_LENGTH: Final = 3
"""Maximum number of exceptions of a chain that are shown: the one that was raised, and its causes."""
MAX_GROUP_MEMBERS: Final = 5
"""Maximum number of exceptions of a group that are shown."""
MAX_EXCEPTIONS: Final = 10
"""Maximum number of exceptions that are shown, those of groups and their causes included."""
MAX_READ_CHARS: Final = 1_000_000
"""Maximum length of an exception's text that is read: secrets and arguments are replaced before it is truncated."""
MAX_MASKED_TEXTS: Final = 100
"""Maximum number of texts among a call's arguments that are masked. With more, the log quotes no exception's text."""
MIN_MASKED_CHARS: Final = 4
"""Minimum number of characters of such a text."""
_LIBRARY_PREFIX: Final = "roboco."
"""The prefix of the modules whose frames are left out before the tool's own."""


def error_text(error: BaseException) -> str:
    """Return the type and the text of the exception, even if reading its text raises an exception, as SystemExit."""
    try:
        text = str(error)
    except BaseException as broken:
        text = f"(its text cannot be read: {type(broken).__name__})"
    if len(text) > MAX_READ_CHARS:
        text = f"(a text of {len(text)} characters)"
    return f"{type(error).__name__}: {text}"


def result_text(error: BaseException) -> str:
    """Return the type and the text of the exception, and of the exceptions in it if it is a group."""
    return "; ".join(map(error_text, (error, *_members(error))))


def mask_arguments(args: Mapping[str, Any], mask: Mask) -> Mask:
    """Return a mask that also replaces the texts among a call's arguments, which a model or a user wrote.

    Secrets are replaced first: an argument that is a part of a secret must not hide it.
    """
    found = islice(_long_texts(args), MAX_MASKED_TEXTS)
    forms = {form for text in found for form in (text, repr(text)[1:-1])}
    arguments = sorted(filter(_is_long, forms | set(map(mask, forms))), key=len, reverse=True)

    def masked(text: str) -> str:
        text = mask(text)
        for argument in arguments:
            text = text.replace(argument, "...")
        return text

    return masked


def _is_long(text: str) -> bool:
    return len(text) >= MIN_MASKED_CHARS


def _long_texts(args: Mapping[str, Any]) -> Iterator[str]:
    return filter(_is_long, _texts(dict(args)))


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


def failure_lines(
    error: BaseException, frames: int, mask: Mask, args: Mapping[str, Any] = MappingProxyType({})
) -> tuple[str, ...]:
    """Return the last frames and the text of each exception of the chain; the exception that was raised is last.

    The exceptions of a group precede the group. Texts among `args` are masked. If there are too many, the texts of the
    exceptions are left out instead.
    """
    masked = mask_arguments(args, mask) if args else mask
    text_of = _type_only if any(islice(_long_texts(args), MAX_MASKED_TEXTS, None)) else error_text
    lines: list[str] = []
    for one in reversed(list(islice(_walk_chain(error), MAX_EXCEPTIONS))):
        lines += (log_text(masked(line), MAX_LINE_CHARS) for line in _frame_lines(one, frames))
        lines.append(log_text(masked(text_of(one)), MAX_TEXT_CHARS))
    return tuple(lines)


def _type_only(error: BaseException) -> str:
    return (
        f"{type(error).__name__}: (its text is not logged, because it may quote the arguments of the call, which hold "
        f"more than {MAX_MASKED_TEXTS} texts)"
    )


def _frame_lines(error: BaseException, frames: int) -> Iterator[str]:
    for frame in traceback.extract_tb(_outside_library(error.__traceback__), limit=-frames):
        yield f'File "{frame.filename}", line {frame.lineno}, in {frame.name}'
        if frame.line:
            yield f"    {frame.line}"


def _walk_chain(error: BaseException) -> Iterator[BaseException]:
    """Yield each exception of the chain, and after a group its members, with their chains."""
    for one in _chain(error):
        yield one
        for member in _members(one):
            yield from _chain(member)


def _members(error: BaseException) -> tuple[BaseException, ...]:
    """Return the first exceptions of a group, else nothing."""
    return error.exceptions[:MAX_GROUP_MEMBERS] if isinstance(error, BaseExceptionGroup) else ()


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception, and those that Python shows as its causes."""
    one: BaseException | None = error
    for _ in range(MAX_CHAIN_LENGTH):
        if one is None:
            return
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _outside_library(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback from its first frame outside of Roboco, or the whole traceback if it has none."""
    whole = trace
    while trace is not None and str(trace.tb_frame.f_globals.get("__name__", "")).startswith(_LIBRARY_PREFIX):
        trace = trace.tb_next
    return trace or whole
