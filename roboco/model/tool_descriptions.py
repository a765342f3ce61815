"""Short descriptions of tools, in few tokens, for models without native tool calling."""

import json
from typing import Any

from roboco.model.strict_schema import JsonSchema, resolve_ref

MAX_DESCRIPTION_CHARS = 800
"""Maximum number of characters of a tool's description."""
MAX_ARGUMENT_CHARS = 200
"""Maximum number of characters of an argument's name, description or value."""
MAX_DEPTH = 5
MAX_SUBSCHEMAS = 100
"""Maximum number of schemas that are sketched per tool; further or deeper ones are shown as "any"."""
_SHOWN_KEYWORDS = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
    *("minItems", "maxItems", "pattern", "format", "default"),
)


def describe_tools(tools: tuple[dict[str, Any], ...]) -> str:
    """Return a line for each tool with its name and description, followed by a line with its arguments."""
    return "\n".join(_describe_tool(tool["function"]) for tool in tools)


def _describe_tool(function: dict[str, Any]) -> str:
    schema = function.get("parameters") or {}
    description = _one_line(function.get("description"), MAX_DESCRIPTION_CHARS)
    return f"- {function['name']}: {description}\n  args: {_SchemaSketch(schema).sketch(schema, 0)}"


class _SchemaSketch:
    """A schema in short form: {"a": integer, "b": [string] (optional)}."""

    def __init__(self, root: JsonSchema) -> None:
        self._root = root
        self._schemas_left = MAX_SUBSCHEMAS

    def sketch(self, schema: Any, depth: int) -> str:
        self._schemas_left -= 1
        if self._schemas_left < 0 or depth > MAX_DEPTH or not isinstance(schema, dict):
            return "any"
        if "$ref" in schema:
            return self.sketch(resolve_ref(schema["$ref"], self._root), depth + 1)
        if isinstance(schema.get("properties"), dict):
            return self._sketch_fields(schema, depth)
        if schema.get("type") == "array":
            return f"[{self.sketch(schema.get('items'), depth + 1)}]"
        return " | ".join(self._sketch_choices(schema, depth))

    def _sketch_choices(self, schema: JsonSchema, depth: int) -> list[str]:
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list):
            return [_json(value)[:MAX_ARGUMENT_CHARS] for value in values[:MAX_SUBSCHEMAS]]
        for keyword in ("anyOf", "oneOf"):
            if isinstance(schema.get(keyword), list):
                return [self.sketch(one, depth + 1) for one in schema[keyword][:MAX_SUBSCHEMAS]]
        kinds = schema.get("type", "any")
        return [str(kind) for kind in kinds] if isinstance(kinds, list) else [str(kinds)]

    def _sketch_fields(self, schema: JsonSchema, depth: int) -> str:
        required = schema.get("required") or ()
        fields = (
            f"{_json(name)[:MAX_ARGUMENT_CHARS]}: {self.sketch(one, depth + 1)}{_notes(one, name in required)}"
            for name, one in list(schema["properties"].items())[:MAX_SUBSCHEMAS]
        )
        return "{" + ", ".join(fields) + "}"


def _notes(schema: Any, required: bool) -> str:
    notes = [] if required else ["optional"]
    if isinstance(schema, dict):
        notes += [f"{name} {_json(schema[name])[:MAX_ARGUMENT_CHARS]}" for name in _SHOWN_KEYWORDS if name in schema]
        notes.append(_one_line(schema.get("description"), MAX_ARGUMENT_CHARS))
    text = "; ".join(filter(None, notes))
    return f" ({text})" if text else ""


def _one_line(text: Any, max_chars: int) -> str:
    return " ".join(str(text or "").split())[:max_chars]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
