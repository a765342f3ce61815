"""ToolDifference: the difference between the tool of an open call and the tool that the task knows, for people."""

import json
from typing import Literal

from roboco.domain.schema import RecordModel
from roboco.domain.team.tool_listing import COMPARED_PARTS, ListedTool, ToolChange

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
    same = _common_prefix_length(before, after)
    start = 0 if max(len(before), len(after)) <= most else max(0, same - _CONTEXT_CHARS)
    return PartDifference(part=part, before=_excerpt(before, start, most), after=_excerpt(after, start, most))


def _as_json(value: object) -> str:
    """Return the value on one line, so that no line of it can imitate a line of Roboco's."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _common_prefix_length(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _excerpt(text: str, start: int, most: int) -> str:
    """Return the text from `start` on, with the numbers of left-out characters: no change hides behind a long text."""
    left = len(text) - start - most
    first = f"[{start} characters as before] " if start else ""
    return f"{first}{text[start : start + most]}{f' [{left} more characters]' if left > 0 else ''}"
