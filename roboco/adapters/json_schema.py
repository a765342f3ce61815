"""JSON Schemas that callers bring: whether they are sound, and what is wrong with a value.

Nothing is fetched, and patterns are regular expressions of Rust's syntax, which no text can make slow: values are what
a model said.
"""

from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.validators import extend
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from roboco.domain.pattern import check_pattern, matches

MOST_FOLLOWED = 5000
"""How many references one check follows at most."""
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
    return next(_unusable(schema, Registry().with_resource("", DRAFT202012.create_resource(schema)).resolver()), "")


def mistake(schema: dict[str, Any], value: Any) -> str:
    """What is wrong with the value; "" if it is valid."""
    validator = _Validator(schema, registry=Registry())
    _followed.set(0)
    try:
        error = best_match(validator.iter_errors(value))
    except Exception as unusable:  # the package raises all sorts of errors for what a reference may name
        return f"the schema cannot be used: {type(unusable).__name__}: {_short(str(unusable))}"
    return "" if error is None else f"{error.json_path}: {_short(error.message)}"


def _short(message: str) -> str:
    """The message without its middle, if it is long: it begins with the value, and ends with what is wrong."""
    return message if len(message) <= 2 * _SHOWN else f"{message[:_SHOWN]} ... {message[-_SHOWN:]}"


def _unusable(schema: Any, resolver: Any) -> Iterator[str]:
    """What of the schema cannot be used, or could be made slow by a value."""
    if not isinstance(schema, dict):
        return
    for keyword in ("patternProperties", "$dynamicRef"):
        if keyword in schema:
            yield f"has {keyword!r}, which is not supported"
    if (pattern := schema.get("pattern")) is not None:
        try:
            check_pattern(pattern)
        except ValueError as error:
            yield f"has the pattern {pattern!r:.80}, which is {error}"
    if (ref := schema.get("$ref")) is not None and not _leads(ref, resolver):
        yield f"has the reference {ref!r:.80}, which does not lead to a schema in it"
    inner = [one for name in _NAMED for one in schema.get(name, {}).values()]
    inner += [one for name in _LISTED for one in schema.get(name, ())]
    inner += [schema[name] for name in _SINGLE if name in schema]
    for one in inner:
        yield from _unusable(one, resolver)


def _leads(ref: str, resolver: Any) -> bool:
    try:
        return isinstance(resolver.lookup(ref).contents, dict | bool)
    except Exception:  # the package raises all sorts of errors for what a reference may name
        return False


def _pattern(_: Any, pattern: str, value: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(value, str) and not matches(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


_followed: ContextVar[int] = ContextVar("followed")
"""How many references the present check has followed."""


def _ref(validator: Any, ref: str, value: Any, schema: Any) -> Iterator[ValidationError]:
    """Follow a reference, a bounded number of times: a few lines can name each other without end."""
    _followed.set(_followed.get() + 1)
    if _followed.get() > MOST_FOLLOWED:
        raise ValueError(f"more than {MOST_FOLLOWED} references are followed")
    yield from Draft202012Validator.VALIDATORS["$ref"](validator, ref, value, schema) or ()


_extend: Any = extend
_Validator: Any = _extend(Draft202012Validator, {"pattern": _pattern, "$ref": _ref})
