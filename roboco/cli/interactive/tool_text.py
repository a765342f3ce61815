"""Tool calls and their results as people read them: no quotes and braces where words suffice."""

import json
from typing import Any, Final

from roboco.cli.terminal.sanitize import one_line
from roboco.domain.history.part import ToolCall

MAX_ARGUMENT_CHARS: Final = 240
"""Characters of a call's arguments that are shown."""
MAX_RESULT_CHARS: Final = 480
"""Characters of a line of a result that are shown."""
MAX_RESULT_LINES: Final = 8
"""Lines of a result that are shown."""
MAX_INDENT: Final = 12
"""Spaces that are kept at the beginning of a line."""
ONE_LINE_CHARS: Final = 100
"""Characters of an object that is shown on one line."""


def call_text(call: ToolCall) -> str:
    """Return the call as Python would write it, on one line."""
    args = ", ".join(f"{name}={_json(value)}" for name, value in call.args.items())
    return one_line(f"{call.tool_name}({args})", MAX_ARGUMENT_CHARS)


def result_lines(result: Any) -> list[str]:
    """Return the lines of a result, at least one; the last names how many more there are."""
    lines = [_shortened(line) for line in _lines(result)]
    if len(lines) > MAX_RESULT_LINES:
        more = len(lines) - MAX_RESULT_LINES + 1
        lines = [*lines[: MAX_RESULT_LINES - 1], f"… {more} more lines"]
    return lines or ["nothing"]


def _shortened(line: str) -> str:
    """Return the line with its indent, safe for a terminal and at a bounded length."""
    indent = len(line) - len(line.lstrip(" "))
    return " " * min(indent, MAX_INDENT) + one_line(line, MAX_RESULT_CHARS)


def _lines(value: Any) -> list[str]:
    """Return the value as lines: texts as they are, objects as "name: value", lists as one item a line."""
    match value:
        case str():
            return [line.rstrip() for line in value.strip().splitlines()]
        case None:
            return []
        case dict():
            return _object_lines(value)
        case list() if all(_is_scalar(one) for one in value):
            return [", ".join(_scalar(one) for one in value)] if value else []
        case list():
            return [line for one in value for line in _item_lines(one)]
        case _:
            return [_scalar(value)]


def _object_lines(value: dict[str, Any]) -> list[str]:
    """Return an object on one line if it is short and flat, else with a line for each of its fields."""
    if not value:
        return []
    flat = " · ".join(f"{name}: {' '.join(_lines(one)) or 'nothing'}" for name, one in value.items())
    if len(flat) <= ONE_LINE_CHARS and not any(_is_nested(one) for one in value.values()):
        return [flat]
    lines: list[str] = []
    for name, one in value.items():
        inner = _lines(one) or ["nothing"]
        below = len(inner) > 1 or _is_nested(one)
        lines += [f"{name}:", *(f"  {line}" for line in inner)] if below else [f"{name}: {inner[0]}"]
    return lines


def _item_lines(value: Any) -> list[str]:
    first, *rest = _lines(value) or ["nothing"]
    return [f"- {first}", *(f"  {line}" for line in rest)]


def _is_nested(value: Any) -> bool:
    """Return True if the value needs lines below its name."""
    if isinstance(value, str):
        return "\n" in value.strip()
    return isinstance(value, dict) or (isinstance(value, list) and not all(_is_scalar(one) for one in value))


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, dict | list) and "\n" not in str(value)


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
