"""The rules for a function's parameters by which OpenAI's server refuses a whole request."""

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator

_ROOT_ONLY = ("anyOf", "oneOf", "allOf", "not", "enum", "const", "if")


def schema_mistakes(schema: Any) -> list[str]:
    """Return the mistakes of the parameters' schema."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return ["schema must be of type object"]
    found = [f"{keyword} at the root" for keyword in _ROOT_ONLY if keyword in schema]
    found += [error.message for error in Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema)]
    return [*found, *_nested_mistakes(schema, "#")]


def _nested_mistakes(schema: Any, at: str) -> Iterator[str]:
    if isinstance(schema, bool):
        yield f"{at}: a boolean schema"
        return
    if not isinstance(schema, dict):
        yield f"{at}: no schema"
        return
    kinds = schema.get("type")
    listed = kinds if isinstance(kinds, list) else [kinds]
    if "object" in listed and not isinstance(schema.get("properties"), dict):
        yield f"{at}: object schema missing properties"
    if "array" in listed and "items" not in schema:
        yield f"{at}: array schema missing items"
    if schema.get("enum") == []:
        yield f"{at}: empty enum"
    for path, one in _subschemas(schema):
        yield from _nested_mistakes(one, f"{at}/{path}")


def _subschemas(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for keyword in ("properties", "$defs", "definitions"):
        yield from ((f"{keyword}/{name}", one) for name, one in (schema.get(keyword) or {}).items())
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        yield from ((f"{keyword}/{index}", one) for index, one in enumerate(schema.get(keyword) or []))
    yield from (("items", schema["items"]) for _ in ("items",) if "items" in schema)
