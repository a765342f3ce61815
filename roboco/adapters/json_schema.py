"""JSON Schemas that callers bring: whether they are sound, and what is wrong with a value. Nothing is fetched."""

from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match
from referencing import Registry
from referencing.exceptions import Unresolvable

_SHOWN = 300


def schema_mistake(schema: dict[str, Any]) -> str:
    """What is wrong with the JSON Schema of an object; "" if nothing is."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"is no JSON Schema: {error.message[:_SHOWN]} at {error.json_path}"
    if schema.get("type", "object") != "object":
        return f"must be the schema of an object (found type {schema.get('type')!r:.60})"
    return ""


def mistake(schema: dict[str, Any], value: Any) -> str:
    """What is wrong with the value; "" if it is valid."""
    validator = Draft202012Validator(schema, registry=Registry())
    try:
        error = best_match(validator.iter_errors(value))
    except (Unresolvable, RecursionError) as unusable:
        return f"the schema cannot be used: {unusable}"[:_SHOWN]
    return "" if error is None else f"{error.json_path}: {error.message[:_SHOWN]}"
