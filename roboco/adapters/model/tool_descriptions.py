"""Short descriptions of tools, in few tokens, for models without native tool calling."""

import json
from typing import Any

from roboco.adapters.model.strict_schema import Schema, led_to

LONGEST = 800
"""Maximum number of characters of a tool's description."""
LONGEST_OF_ONE = 200
"""Maximum number of characters of an argument's name, description or value."""
DEEPEST = 5
MOST = 100
"""Maximum number of schemas that are sketched per tool; further or deeper ones are shown as "any"."""
_LIMITS = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
    *("minItems", "maxItems", "pattern", "format", "default"),
)


def tool_sheet(tools: tuple[dict[str, Any], ...]) -> str:
    """Return a line for each tool with its name and description, followed by a line with its arguments."""
    return "\n".join(_told(tool["function"]) for tool in tools)


def _told(function: dict[str, Any]) -> str:
    schema = function.get("parameters") or {}
    what = _line(function.get("description"), LONGEST)
    return f"- {function['name']}: {what}\n  args: {_Sketch(schema).of(schema, 0)}"


class _Sketch:
    """A schema in short form: {"a": integer, "b": [string] (optional)}."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = MOST

    def of(self, schema: Any, depth: int) -> str:
        self._left -= 1
        if self._left < 0 or depth > DEEPEST or not isinstance(schema, dict):
            return "any"
        if "$ref" in schema:
            return self.of(led_to(schema["$ref"], self._root), depth + 1)
        if isinstance(schema.get("properties"), dict):
            return self._fields(schema, depth)
        if schema.get("type") == "array":
            return f"[{self.of(schema.get('items'), depth + 1)}]"
        return " | ".join(self._choices(schema, depth))

    def _choices(self, schema: Schema, depth: int) -> list[str]:
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list):
            return [_json(value)[:LONGEST_OF_ONE] for value in values[:MOST]]
        for keyword in ("anyOf", "oneOf"):
            if isinstance(schema.get(keyword), list):
                return [self.of(one, depth + 1) for one in schema[keyword][:MOST]]
        kinds = schema.get("type", "any")
        return [str(kind) for kind in kinds] if isinstance(kinds, list) else [str(kinds)]

    def _fields(self, schema: Schema, depth: int) -> str:
        required = schema.get("required") or ()
        fields = (
            f"{_json(name)[:LONGEST_OF_ONE]}: {self.of(one, depth + 1)}{_notes(one, name in required)}"
            for name, one in list(schema["properties"].items())[:MOST]
        )
        return "{" + ", ".join(fields) + "}"


def _notes(schema: Any, required: bool) -> str:
    notes = [] if required else ["optional"]
    if isinstance(schema, dict):
        notes += [f"{name} {_json(schema[name])[:LONGEST_OF_ONE]}" for name in _LIMITS if name in schema]
        notes.append(_line(schema.get("description"), LONGEST_OF_ONE))
    told = "; ".join(filter(None, notes))
    return f" ({told})" if told else ""


def _line(text: Any, longest: int) -> str:
    return " ".join(str(text or "").split())[:longest]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
