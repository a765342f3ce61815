"""function_schema: the parameters of a tool in the form in which every provider accepts them.

A JSON Schema may be anything; the parameters of a function must be an object with `properties`, without alternatives at
the root. What is lost here is checked when the tool is called.
"""

from typing import Any

_ALTERNATIVES = ("anyOf", "oneOf", "allOf")
_REFUSED_AT_ROOT = frozenset({*_ALTERNATIVES, "not", "enum", "const", "if", "then", "else"})


def function_schema(schema: Any) -> dict[str, Any]:
    """Return the schema of an object that has `properties`. An object without them accepts any arguments."""
    if not isinstance(schema, dict):
        return {"type": "object", "properties": {}}
    properties = schema.get("properties")
    if schema.get("type") == "object" and isinstance(properties, dict) and not _REFUSED_AT_ROOT.intersection(schema):
        return schema
    rest = {name: value for name, value in schema.items() if name not in _REFUSED_AT_ROOT}
    merged: dict[str, Any] = dict(properties) if isinstance(properties, dict) else {}
    for keyword in _ALTERNATIVES:
        parts = schema.get(keyword)
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and isinstance(part.get("properties"), dict):
                merged = part["properties"] | merged
    return rest | {"type": "object", "properties": merged}
