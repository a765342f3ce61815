"""Listing: the tools of an MCP server as a task knows them, so that a later change of one is detected."""

import json
from typing import Any, Literal

from pydantic import ValidationError

from roboco.domain.canonical_json import canonical_json
from roboco.domain.schema import Effect, RecordModel
from roboco.errors import CorruptHistory

MAX_LISTING_CHARS = 4 * 1024 * 1024
"""The largest listing of one server that a task stores, in characters of its JSON."""


COMPARED_PARTS: tuple[Literal["description", "input_schema", "effect"], ...] = ("description", "input_schema", "effect")
"""The parts of a tool that a person approves."""
_SETS = frozenset({"enum", "required", "type", "anyOf", "oneOf", "allOf", "examples"})
"""Keywords whose lists have no order."""
_TEXTS = frozenset({"title", "description", "$comment"})
_SCHEMAS_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_VALUES = frozenset({"const", "default", "example"})
"""Keywords whose values are no schemas."""


class ListedTool(RecordModel):
    """A tool as its server describes it. Effect and description of the team file replace the server's."""

    description: str
    input_schema: dict[str, Any]
    effect: Effect

    remote: str = ""
    """The name of the tool at its server, if its short name differs, else ""."""

    def comparable(self, part: str) -> Any:
        """Return a part of the tool as it is compared: without white space and order that mean nothing."""
        value = getattr(self, part)
        match part:
            case "description":
                return _one_spaced(value)
            case "input_schema":
                return _unordered(value)
            case _:
                return value

    def is_same(self, other: "ListedTool") -> bool:
        """Return True if a person who has approved one of the tools has approved the other one."""
        return all(self.comparable(part) == other.comparable(part) for part in COMPARED_PARTS)


class Listing(RecordModel):
    """The tools of one server, by the server's own names."""

    tools: dict[str, ListedTool] = {}
    error: str = ""
    """The reason why the tools are not known, or ""."""
    attempts: int = 0
    """The number of failed attempts."""
    refused: bool = False
    """True if no further attempt can help.

    Either the operator does not allow the server, or it lacks a tool that the team names.
    """
    left_out: dict[str, str] = {}
    """The tools that agents cannot call, by the server's names, with the reasons."""
    missing: str = ""
    """The tools that the server lacks. A listing with this text is never stored."""

    def updated_with(self, newer: "Listing") -> "Listing":
        """Return this listing, updated with the tools of a newer one."""
        return self.model_copy(update={"tools": self.tools | newer.tools})


class ListingRequests(RecordModel):
    """The requests for the listing of a server that a task has sent to tools workers."""

    checks: int = 0
    """How often its turn has found no listing."""
    requests: int = 0
    requested_at: float = 0.0
    """The time of the newest request, in Unix seconds."""


class ToolChange(RecordModel):
    """A tool that differs from the task's listing."""

    server: str
    remote: str
    tool: ListedTool
    """The tool as its server lists it now."""


def parse_listing(path: str, data: bytes) -> Listing:
    """Return the listing of one stored file.

    Raise CorruptHistory if it cannot be read.
    """
    try:
        return Listing.model_validate_json(data)
    except ValidationError as error:
        message = error.errors(include_url=False)[0]["msg"]
        raise CorruptHistory(f"{path} cannot be read: {message}; restore the file, or stop the task") from error


def _one_spaced(text: str) -> str:
    return " ".join(text.split())


def _unordered(schema: Any) -> Any:
    """Return the schema with the lists sorted that are sets in JSON Schema, and with texts of single spaces."""
    if isinstance(schema, list):
        return [_unordered(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {keyword: _unordered_value(keyword, value) for keyword, value in schema.items()}


def _unordered_value(keyword: str, value: Any) -> Any:
    if keyword in _TEXTS and isinstance(value, str):
        return _one_spaced(value)
    if keyword in _SETS and isinstance(value, list):
        members = value if keyword in ("enum", "required", "type", "examples") else [_unordered(one) for one in value]
        return sorted({canonical_json(one) for one in members})
    if keyword == "dependentRequired" and isinstance(value, dict):
        return {name: _unordered_value("required", names) for name, names in value.items()}
    if keyword in _SCHEMAS_BY_NAME and isinstance(value, dict):
        return {name: _unordered(one) for name, one in value.items()}
    return value if keyword in _VALUES else _unordered(value)


MAX_EVENT_TEXT_CHARS, MAX_EVENT_CALLS = 240, 4
"""The most characters of each text in an event, and the most calls whose differences it holds."""
MAX_TEXT_CHARS = 4000
"""The largest number of characters of each text for a person who decides."""
_CONTEXT_CHARS = 60
"""The number of characters before the first difference at which the excerpt of a long text begins."""


class PartDifference(RecordModel):
    """One part of a tool as JSON text, before and after the change."""

    part: Literal["description", "input_schema", "effect"]
    before: str
    """The text before the change; empty if the task did not know the tool."""
    after: str


class ToolDifference(RecordModel):
    """The parts of a tool that changed after the task began. The approval of the call approves them."""

    call_id: str
    server: str
    tool: str
    parts: tuple[PartDifference, ...]


def tool_difference(call_id: str, known: ListedTool | None, change: ToolChange, max_chars: int) -> ToolDifference:
    """Return the difference between the tool that the task knows and the changed one, `max_chars` characters a text."""
    parts = tuple(
        _part(part, known, change.tool, max_chars)
        for part in COMPARED_PARTS
        if known is None or known.comparable(part) != change.tool.comparable(part)
    )
    return ToolDifference(call_id=call_id, server=change.server, tool=change.remote, parts=parts)


def _part(
    part: Literal["description", "input_schema", "effect"], known: ListedTool | None, now: ListedTool, most: int
) -> PartDifference:
    before = "" if known is None else _as_json(getattr(known, part))
    after = _as_json(getattr(now, part))
    pairs = enumerate(zip(before, after, strict=False))
    same = next((place for place, (one, other) in pairs if one != other), min(len(before), len(after)))
    start = 0 if max(len(before), len(after)) <= most else max(0, same - _CONTEXT_CHARS)
    return PartDifference(part=part, before=_excerpt(before, start, most), after=_excerpt(after, start, most))


def _as_json(value: object) -> str:
    """Return the value on one line, so that no line of it can imitate a line of Roboco's."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _excerpt(text: str, start: int, most: int) -> str:
    """Return the text from `start` on, with the numbers of left-out characters: no change hides behind a long text."""
    left = len(text) - start - most
    first = f"[{start} characters as before] " if start else ""
    return f"{first}{text[start : start + most]}{f' [{left} more characters]' if left > 0 else ''}"
