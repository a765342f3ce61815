"""JSON Schemas that callers bring: whether they are sound, and what is wrong with a value.

Nothing is fetched, and patterns are regular expressions of Rust's syntax, which no text can make slow: values are what
a model said.
"""

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

from roboco.domain.pattern import check_pattern, matches

_SHOWN = 150
_NAMED = ("properties", "$defs", "definitions", "dependentSchemas")
_LISTED = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else")


def schema_mistake(schema: dict[str, Any]) -> str:
    """What is wrong with the JSON Schema of an object; "" if nothing is."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"is no JSON Schema: {_short(error.message)} at {error.json_path}"
    except RecursionError:
        return "is no JSON Schema: it is nested too deep"
    if schema.get("type", "object") != "object":
        return f"must be the schema of an object (found type {schema.get('type')!r:.60})"
    return next(_slow(schema), "")


def mistake(schema: dict[str, Any], value: Any) -> str:
    """What is wrong with the value; "" if it is valid."""
    validator = _Validator(schema, registry=Registry())
    try:
        error = best_match(validator.iter_errors(value))
    except (Unresolvable, RecursionError) as unusable:
        return f"the schema cannot be used: {_short(str(unusable))}"
    return "" if error is None else f"{error.json_path}: {_short(error.message)}"


def _short(message: str) -> str:
    """The message without its middle, if it is long: it begins with the value, and ends with what is wrong."""
    return message if len(message) <= 2 * _SHOWN else f"{message[:_SHOWN]} ... {message[-_SHOWN:]}"


def _slow(schema: Any) -> Iterator[str]:
    """What of the schema could be made slow by a value."""
    if not isinstance(schema, dict):
        return
    if "patternProperties" in schema:
        yield "has patternProperties, which are not supported: name the properties"
    if (pattern := schema.get("pattern")) is not None:
        try:
            check_pattern(pattern)
        except ValueError as error:
            yield f"has the pattern {pattern!r:.80}, which is {error}"
    inner = [one for name in _NAMED for one in schema.get(name, {}).values()]
    inner += [one for name in _LISTED for one in schema.get(name, ())]
    inner += [schema[name] for name in _SINGLE if name in schema]
    for one in inner:
        yield from _slow(one)


def _pattern(_: Any, pattern: str, value: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(value, str) and not matches(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


_extend: Any = extend
_Validator: Any = _extend(Draft202012Validator, {"pattern": _pattern})
