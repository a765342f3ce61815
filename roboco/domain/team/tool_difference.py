"""ToolDifference: how the tool of an open call differs from the one that the task knows, for a person to read."""

import json
from typing import Literal

from roboco.domain.schema import Recorded
from roboco.domain.team.tool_listing import ListedTool, ToolChange

PARTS: tuple[Literal["description", "input_schema", "effect"], ...] = ("description", "input_schema", "effect")
"""What a person approves of a tool."""
IN_EVENT, CALLS_IN_EVENT = 240, 4
"""The most characters of each text in an event, and the most calls whose differences it holds."""
WHOLE = 4000
"""The most characters of each text for a person who decides."""
_BEFORE = 60
"""How many characters before the first difference a text begins that is too long to be shown whole."""


class PartDifference(Recorded):
    """One part of a tool as JSON text, before and after. `before` is empty if the task did not know the tool."""

    part: Literal["description", "input_schema", "effect"]
    before: str
    after: str


class ToolDifference(Recorded):
    """The parts of a tool that have changed since the task began; the approval of the call approves them."""

    call_id: str
    server: str
    tool: str
    parts: tuple[PartDifference, ...]


def tool_difference(call_id: str, known: ListedTool | None, change: ToolChange, most: int) -> ToolDifference:
    """Return the difference between the tool that the task knows and the changed one, `most` characters a text."""
    parts = tuple(
        _part(part, known, change.tool, most)
        for part in PARTS
        if known is None or getattr(known, part) != getattr(change.tool, part)
    )
    return ToolDifference(call_id=call_id, server=change.server, tool=change.remote, parts=parts)


def _part(
    part: Literal["description", "input_schema", "effect"], known: ListedTool | None, now: ListedTool, most: int
) -> PartDifference:
    before = "" if known is None else _as_json(getattr(known, part))
    after = _as_json(getattr(now, part))
    same = _same_at_first(before, after)
    start = 0 if max(len(before), len(after)) <= most else max(0, same - _BEFORE)
    return PartDifference(part=part, before=_cut(before, start, most), after=_cut(after, start, most))


def _as_json(value: object) -> str:
    """The value on one line, so that no line of it passes for one of Roboco's."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _same_at_first(one: str, other: str) -> int:
    """Return the length of what both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _cut(text: str, start: int, most: int) -> str:
    """Return the text from `start` on, with the numbers of left-out characters: no change hides behind a long text."""
    left = len(text) - start - most
    first = f"[{start} characters as before] " if start else ""
    return f"{first}{text[start : start + most]}{f' [{left} more characters]' if left > 0 else ''}"
