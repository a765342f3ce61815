"""Passages: the content of a step in pieces that a search can find and show."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, assert_never

from roboco.domain.builtin_tools import MEMORY_SEARCH
from roboco.domain.canonical_json import well_formed
from roboco.domain.history.part import (
    Artifact,
    ArtifactPart,
    ErrorPart,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from roboco.domain.history.step import TaskStep
from roboco.tools.search.result import PartKind

MIN_PASSAGE_CHARS, MAX_PASSAGE_CHARS = 40, 240
"""Characters of a passage: about a sentence, since the vector of several says little about each of them."""
MAX_INDEXED_BYTES = 1024 * 1024
"""Maximum number of bytes of an artifact that are indexed."""
_END = re.compile(r"\n|[.!?]\s|[。！？]")


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
    """Yield the passages of the step's parts and of the text artifacts that it refers to.

    Searches and their hits are left out: they repeat other steps, and would displace them.
    """
    for part in step.parts:
        if isinstance(part, UnknownPart) or _is_search(part):
            continue
        if isinstance(part, ArtifactPart):
            yield from _artifact_passages(step, part.artifact, read_text)
            continue
        for _, piece in split_text(_part_text(part)):
            yield Passage(step, part.type, piece)


def _is_search(part: Part) -> bool:
    if isinstance(part, ToolCallPart):
        return part.tool_call.tool_name == MEMORY_SEARCH
    found = part.tool_result.result if isinstance(part, ToolResultPart) else None
    hits = found.get("hits") if isinstance(found, dict) else found
    return isinstance(hits, list) and any(
        isinstance(hit, dict) and {"step_id", "snippet"} <= hit.keys() for hit in hits
    )


def split_text(text: str) -> Iterator[tuple[int, str]]:
    """Yield the text in nonempty pieces with their offsets, split at lines, sentences or words."""
    start = 0
    while start < len(text):
        end = _piece_end(text, start)
        if (piece := text[start:end]).strip():
            yield start, unicodedata.normalize("NFC", well_formed(piece))
        start = end


def _piece_end(text: str, start: int) -> int:
    earliest, limit = start + MIN_PASSAGE_CHARS, start + MAX_PASSAGE_CHARS
    if (found := _END.search(text, earliest, limit)) and len(text) - found.end() >= MIN_PASSAGE_CHARS:
        return found.end()
    if limit >= len(text):
        return len(text)
    return found.end() if found else text.rfind(" ", earliest, limit) + 1 or limit


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
