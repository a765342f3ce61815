"""Strict schemas: a tool's JSON Schema, narrowed to the subset that grammar converters and strict providers accept.

Objects, arrays, enums, alternatives and plain types remain; references are inlined. Every other constraint is checked
after the model has replied.
"""

from typing import Any

Schema = dict[str, Any]

DEEPEST = 8
MOST = 300
"""Maximum number of schemas within a tool's schema; further or deeper ones accept any value."""
MOST_ITEMS = 5000
"""Maximum number of names and values in the narrowed schema: references can repeat a long list hundreds of times."""
_LONG = 50
ANYTHING: Schema = {"type": ["string", "number", "boolean", "object", "array", "null"]}
_SCALAR = str | int | float | bool | None
_PLAIN = ("string", "number", "integer", "boolean", "null")


def strict_schema(schema: Schema) -> Schema:
    """Return the narrowed schema of an object. Properties keep their order, since models reply in it."""
    narrowed = _Narrowing(schema).of(schema, 0)
    return narrowed if narrowed.get("type") == "object" or "anyOf" in narrowed else {"type": "object"}


def is_strict(schema: Schema) -> bool:
    """Return True if strict providers accept the schema: objects are closed and require all of their properties."""
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        closed = schema.get("additionalProperties") is False and set(properties) == set(schema.get("required", ()))
        return closed and all(is_strict(one) for one in properties.values())
    if "anyOf" in schema:
        return all(is_strict(one) for one in schema["anyOf"])
    return is_strict(schema["items"]) if schema.get("type") == "array" else schema != ANYTHING


def led_to(ref: Any, root: Schema) -> Any:
    """Return the target of a reference within the schema, or None if it has none."""
    found: Any = root if str(ref).startswith("#") else None
    for name in str(ref).split("/")[1:]:
        name = name.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found


class _Narrowing:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = MOST
        self._items = MOST_ITEMS

    def of(self, schema: Any, depth: int) -> Schema:
        """Return the narrowed schema, or the schema of any value."""
        self._left -= 1
        if depth > DEEPEST or self._left < 0 or not isinstance(schema, dict):
            return ANYTHING
        if "$ref" in schema:
            return self.of(led_to(schema["$ref"], self._root), depth + 1)
        if isinstance(schema.get("allOf"), list):
            return self.of(self._merged(schema), depth + 1)
        choices = _alternatives(schema)
        if choices:
            return {"anyOf": [self.of(choice, depth + 1) for choice in choices]}
        return self._one(schema, depth)

    def _one(self, schema: Schema, depth: int) -> Schema:
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list) and values and self._listed(values) and all(map(_is_scalar, values)):
            texts = all(isinstance(value, str) for value in values)
            return {"type": "string", "enum": values} if texts else {"enum": values}
        match schema.get("type") or _implied(schema):
            case "object":
                return self._object(schema, depth)
            case "array":
                return {"type": "array", "items": self.of(schema.get("items"), depth + 1)}
            case str(kind) if kind in _PLAIN:
                return {"type": kind}
            case _:
                return ANYTHING

    def _object(self, schema: Schema, depth: int) -> Schema:
        properties = schema.get("properties")
        free = not properties and schema.get("additionalProperties") is not False
        if free or not isinstance(properties, dict) or len(properties) > MOST or not self._listed(properties):
            return {"type": "object"}
        required = _names(schema.get("required"))
        return {
            "type": "object",
            "properties": {name: self.of(one, depth + 1) for name, one in properties.items()},
            "required": [name for name in properties if name in required],
            "additionalProperties": False,
        }

    def _merged(self, schema: Schema) -> Schema:
        """Return one schema for all parts of `allOf`, as far as they are objects with properties."""
        merged: Schema = {name: value for name, value in schema.items() if name != "allOf"}
        for part in schema["allOf"][:MOST]:
            found = led_to(part["$ref"], self._root) if isinstance(part, dict) and "$ref" in part else part
            for name, value in (found if isinstance(found, dict) else {}).items():
                merged[name] = _joined(merged.get(name), value) if self._listed(merged.get(name)) else value
        return merged

    def _listed(self, values: Any) -> bool:
        """Count the items of a list or object; long texts count several times. Return False beyond the maximum."""
        if isinstance(values, list | dict) and self._items >= len(values):
            self._items -= len(values) + sum(len(value) // _LONG for value in values if isinstance(value, str))
        elif isinstance(values, list | dict):
            self._items = -1
        return self._items >= 0


def _is_scalar(value: Any) -> bool:
    return isinstance(value, _SCALAR)


def _names(required: Any) -> frozenset[str]:
    return frozenset(name for name in required if isinstance(name, str)) if isinstance(required, list) else frozenset()


def _alternatives(schema: Schema) -> list[Any]:
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            return list(schema[keyword])
    kinds = schema.get("type")
    return (
        [{**schema, "type": kind} for kind in kinds[: len(_PLAIN) + 2]]
        if isinstance(kinds, list) and "enum" not in schema
        else []
    )


def _implied(schema: Schema) -> str:
    return "object" if "properties" in schema else "array" if "items" in schema else ""


def _joined(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        return {**one, **other}
    return [*one, *other] if isinstance(one, list) and isinstance(other, list) else other
