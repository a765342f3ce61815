"""Passages: the content of a step in pieces that a search can find and show."""

import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, assert_never

from roboco.domain.canonical_json import well_formed
from roboco.domain.history.part import (
    Artifact,
    ArtifactPart,
    ErrorPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from roboco.domain.history.step import TaskStep
from roboco.tools.search.result import PartKind

MAX_PASSAGE_CHARS = 2000
"""Maximum number of characters of a passage."""
MAX_INDEXED_BYTES = 1024 * 1024
"""Maximum number of bytes of an artifact that are indexed."""
_BREAKS = ("\n\n", "\n", ". ", "。", " ")
_TEXT_SUBTYPES = frozenset(
    {"json", "xml", "yaml", "x-yaml", "toml", "csv", "javascript", "sql", "x-ndjson", "markdown", "x-sh"}
)


@dataclass(frozen=True)
class Passage:
    """A piece of a step's part, or of the artifact `uri` at `offset`, in characters."""

    step: TaskStep
    part: PartKind
    text: str
    uri: str | None = None
    offset: int | None = None


ReadText = Callable[[Artifact], str | None]
"""Takes an artifact and returns its text, or None if it has none or was indexed before."""


def step_passages(step: TaskStep, read_text: ReadText) -> Iterator[Passage]:
    """Yield the passages of the step's parts and of the text artifacts that it refers to."""
    for part in step.parts:
        if isinstance(part, UnknownPart):
            continue
        if isinstance(part, ArtifactPart):
            yield from _artifact_passages(step, part.artifact, read_text)
            continue
        for _, piece in split_text(_part_text(part)):
            yield Passage(step, part.type, piece)


def is_text(mime_type: str) -> bool:
    """Return True if files of the type are readable text."""
    kind, _, name = mime_type.partition(";")[0].strip().lower().partition("/")
    return kind == "text" or (
        kind == "application" and (name in _TEXT_SUBTYPES or name.endswith(("+json", "+xml", "+yaml")))
    )


def split_text(text: str) -> Iterator[tuple[int, str]]:
    """Yield the text in nonempty pieces with their offsets, split at paragraphs, lines, sentences or words."""
    start = 0
    while start < len(text):
        end = _piece_end(text, start)
        if (piece := text[start:end]).strip():
            yield start, unicodedata.normalize("NFC", well_formed(piece))
        start = end


def _piece_end(text: str, start: int) -> int:
    end_limit = start + MAX_PASSAGE_CHARS
    if end_limit >= len(text):
        return len(text)
    earliest_end = end_limit - MAX_PASSAGE_CHARS // 4
    for mark in _BREAKS:
        if (place := text.rfind(mark, earliest_end, end_limit)) >= 0:
            return place + len(mark)
    return end_limit


def _artifact_passages(step: TaskStep, artifact: Artifact, read_text: ReadText) -> Iterator[Passage]:
    """Yield a passage with the artifact's name, and the passages of its text."""
    name = artifact.uri.rpartition("/")[2]
    yield Passage(step, "artifact", well_formed(f"{name} ({artifact.mime_type})")[:MAX_PASSAGE_CHARS], artifact.uri)
    for place, piece in split_text(read_text(artifact) or ""):
        yield Passage(step, "artifact", piece, artifact.uri, place)


def _part_text(part: TextPart | ToolCallPart | ToolResultPart | ErrorPart) -> str:
    match part:
        case TextPart():
            return part.text
        case ToolCallPart():
            return f"{part.tool_call.tool_name} {_readable(part.tool_call.args)}"
        case ToolResultPart():
            return "\n".join(filter(None, [_readable(part.tool_result.result), part.tool_result.error]))
        case ErrorPart():
            return f"{part.code}: {part.message}"
        case _:
            assert_never(part)


def _readable(value: Any) -> str:
    """Return a JSON value for readers, without quotes and escapes."""
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return str(value).lower()
        case dict():
            return "\n".join(f"{key}: {_readable(item)}" for key, item in value.items())
        case list() | tuple():
            return "\n".join(map(_readable, value))
        case _:
            return str(value)
