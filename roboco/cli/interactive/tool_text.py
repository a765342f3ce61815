"""Tool calls and their results as people read them: no quotes and braces where words suffice."""

import json
from typing import Any, Final

import yaml

from roboco.cli.terminal.sanitize import one_line
from roboco.domain.history.part import ToolCall
from roboco.domain.history.step import OUTPUT, TaskStep

MAX_ARGUMENT_CHARS: Final = 240
"""Characters of a call's arguments that are shown."""
MAX_RESULT_CHARS: Final = 480
"""Characters of a line of a result that are shown."""
MAX_RESULT_LINES: Final = 8
"""Lines of a result that are shown."""
MAX_INDENT: Final = 12
"""Spaces that are kept at the beginning of a line."""


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


def answer_text(step: TaskStep) -> str:
    """Return the text of an agent's step: the value of a typed answer as YAML, if it is an object or a list."""
    value = step.metadata[OUTPUT] if step.has_output else None
    return "\n".join(_lines(value)) if isinstance(value, dict | list) else step.text


def _shortened(line: str) -> str:
    """Return the line with its indent, safe for a terminal and at a bounded length."""
    indent = len(line) - len(line.lstrip(" "))
    return " " * min(indent, MAX_INDENT) + one_line(line, MAX_RESULT_CHARS)


class _Dumper(yaml.SafeDumper):
    """Writes a text of several lines as they are."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _lines(value: Any) -> list[str]:
    """Return the value as lines: texts as they are, objects and lists as YAML."""
    if isinstance(value, str):
        return [line.rstrip() for line in value.strip().splitlines()]
    if isinstance(value, dict | list):
        style: dict[str, Any] = {"default_flow_style": None, "sort_keys": False, "allow_unicode": True}
        text: str = yaml.dump(value, Dumper=_Dumper, width=MAX_RESULT_CHARS, **style)
        return text.splitlines()
    return [] if value is None else [_json(value)]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
