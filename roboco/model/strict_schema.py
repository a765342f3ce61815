"""Strict schemas: a tool's JSON Schema, narrowed to the subset that grammar converters and strict providers accept.

Objects, arrays, enums, alternatives and plain types remain; references are inlined. Every other constraint is checked
after the model has replied.
"""

from typing import Any

JsonSchema = dict[str, Any]

MAX_DEPTH = 8
MAX_SUBSCHEMAS = 300
"""Maximum number of schemas within a tool's schema; further or deeper ones accept any value."""
MAX_LISTED_ITEMS = 5000
"""Maximum number of names and values in the narrowed schema: references can repeat a long list hundreds of times."""
_CHARS_PER_ITEM = 50
ANY_VALUE: JsonSchema = {"type": ["string", "number", "boolean", "object", "array", "null"]}
_ScalarValue = str | int | float | bool | None
_PLAIN_TYPES = ("string", "number", "integer", "boolean", "null")


def strict_schema(schema: JsonSchema) -> JsonSchema:
    """Return the narrowed schema of an object. Properties keep their order, since models reply in it."""
    narrowed = _SchemaNarrower(schema).narrow(schema, 0)
    return narrowed if narrowed.get("type") == "object" or "anyOf" in narrowed else {"type": "object"}


def plain_schema(schema: JsonSchema) -> JsonSchema:
    """Return the schema of a tool in the form that every known server accepts: names, descriptions and plain types."""
    plain = _plain(_SchemaNarrower(schema, described=True).narrow(schema, 0))
    return plain if "properties" in plain else {"type": "object", "properties": {}}


def is_strict(schema: JsonSchema) -> bool:
    """Return True if strict providers accept the schema: objects are closed and require all of their properties."""
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        closed = schema.get("additionalProperties") is False and set(properties) == set(schema.get("required", ()))
        return closed and all(is_strict(one) for one in properties.values())
    if "anyOf" in schema:
        return all(is_strict(one) for one in schema["anyOf"])
    if "enum" in schema and "type" not in schema:
        return False
    return is_strict(schema["items"]) if schema.get("type") == "array" else schema != ANY_VALUE


def resolve_ref(ref: Any, root: JsonSchema) -> Any:
    """Return the target of a reference within the schema, or None if it has none."""
    found: Any = root if str(ref).startswith("#") else None
    for name in str(ref).split("/")[1:]:
        name = name.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found


class _SchemaNarrower:
    def __init__(self, root: JsonSchema, described: bool = False) -> None:
        self._root = root
        self._described = described
        self._schemas_left = MAX_SUBSCHEMAS
        self._items_left = MAX_LISTED_ITEMS

    def narrow(self, schema: Any, depth: int) -> JsonSchema:
        """Return the narrowed schema, or the schema of any value."""
        narrowed = self._narrow(schema, depth)
        words = schema.get("description") if self._described and isinstance(schema, dict) else None
        return narrowed | {"description": words} if isinstance(words, str) else narrowed

    def _narrow(self, schema: Any, depth: int) -> JsonSchema:
        self._schemas_left -= 1
        if depth > MAX_DEPTH or self._schemas_left < 0 or not isinstance(schema, dict):
            return ANY_VALUE
        if "$ref" in schema:
            return self.narrow(resolve_ref(schema["$ref"], self._root), depth + 1)
        if isinstance(schema.get("allOf"), list):
            return self.narrow(self._merge_all_of(schema), depth + 1)
        choices = _alternatives(schema)
        if choices:
            return {"anyOf": [self.narrow(choice, depth + 1) for choice in choices]}
        return self._narrow_single(schema, depth)

    def _narrow_single(self, schema: JsonSchema, depth: int) -> JsonSchema:
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        scalars = isinstance(values, list) and all(isinstance(value, _ScalarValue) for value in values)
        if isinstance(values, list) and values and self._count_items(values) and scalars:
            texts = all(isinstance(value, str) for value in values)
            return {"type": "string", "enum": values} if texts else {"enum": values}
        implied = "object" if "properties" in schema else "array" if "items" in schema else ""
        match schema.get("type") or implied:
            case "object":
                return self._narrow_object(schema, depth)
            case "array":
                return {"type": "array", "items": self.narrow(schema.get("items"), depth + 1)}
            case str(kind) if kind in _PLAIN_TYPES:
                return {"type": kind}
            case _:
                return ANY_VALUE

    def _narrow_object(self, schema: JsonSchema, depth: int) -> JsonSchema:
        properties = schema.get("properties")
        free = not properties and schema.get("additionalProperties") is not False
        if (
            free
            or not isinstance(properties, dict)
            or len(properties) > MAX_SUBSCHEMAS
            or not self._count_items(properties)
        ):
            return {"type": "object"}
        required = _required_names(schema.get("required"))
        return {
            "type": "object",
            "properties": {name: self.narrow(one, depth + 1) for name, one in properties.items()},
            "required": [name for name in properties if name in required],
            "additionalProperties": False,
        }

    def _merge_all_of(self, schema: JsonSchema) -> JsonSchema:
        """Return one schema for all parts of `allOf`, as far as they are objects with properties."""
        merged: JsonSchema = {name: value for name, value in schema.items() if name != "allOf"}
        for part in schema["allOf"][:MAX_SUBSCHEMAS]:
            found = resolve_ref(part["$ref"], self._root) if isinstance(part, dict) and "$ref" in part else part
            for name, value in (found if isinstance(found, dict) else {}).items():
                merged[name] = _join_values(merged.get(name), value) if self._count_items(merged.get(name)) else value
        return merged

    def _count_items(self, values: Any) -> bool:
        """Count the items of a list or object; long texts count several times. Return False beyond the maximum."""
        if isinstance(values, list | dict) and self._items_left >= len(values):
            self._items_left -= len(values) + sum(
                len(value) // _CHARS_PER_ITEM for value in values if isinstance(value, str)
            )
        elif isinstance(values, list | dict):
            self._items_left = -1
        return self._items_left >= 0


def _plain(schema: JsonSchema) -> JsonSchema:
    """Return the narrowed schema without `additionalProperties`, null and lists of types: any value is a text."""
    plain: JsonSchema = {"type": "string"}
    if "anyOf" in schema:
        kinds = [_plain(one) for one in schema["anyOf"] if one.get("type") != "null"] or [plain]
        plain = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    elif schema.get("type") == "object":
        properties = {name: _plain(one) for name, one in (schema.get("properties") or {}).items()}
        plain = {"type": "object", "properties": properties}
        plain |= {"required": schema["required"]} if schema.get("required") else {}
    elif schema.get("type") == "array":
        plain = {"type": "array", "items": _plain(schema["items"])}
    elif values := [value for value in schema.get("enum") or () if isinstance(value, str) and value]:
        plain = {"type": "string", "enum": values}
    elif (numbers := schema.get("enum")) and all(type(one) in (int, float) for one in numbers):
        plain = {"type": "integer" if all(isinstance(one, int) for one in numbers) else "number"}
    elif schema.get("type") in ("number", "integer", "boolean"):
        plain = {"type": schema["type"]}
    return plain | {name: schema[name] for name in ("description",) if name in schema}


def _required_names(required: Any) -> frozenset[str]:
    return frozenset(name for name in required if isinstance(name, str)) if isinstance(required, list) else frozenset()


def _alternatives(schema: JsonSchema) -> list[Any]:
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            return list(schema[keyword])
    kinds = schema.get("type")
    return (
        [{**schema, "type": kind} for kind in kinds[: len(_PLAIN_TYPES) + 2]]
        if isinstance(kinds, list) and "enum" not in schema
        else []
    )


def _join_values(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        return {**one, **other}
    return [*one, *other] if isinstance(one, list) and isinstance(other, list) else other
