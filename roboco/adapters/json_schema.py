"""Checks of untrusted JSON Schemas (goals, client tools, MCP tools), and of values against them.

Schemas and values are hostile input. This code does not call Python's `re`, fetches nothing, and takes a bounded number
of steps: `schema_rules` refuses schemas, `schema_validator` counts the steps of a validation.
"""

from typing import Any

from roboco.adapters.schema_rules import find_schema_error
from roboco.adapters.schema_validator import Validation, ValidationAborted, shorten

MAX_ERROR_CHARS = 400
"""Characters of an error message: a model or a person reads it."""


def schema_error(schema: dict[str, Any]) -> str:
    """Return why the JSON Schema of an object is refused, or "" if it is accepted."""
    return shorten(find_schema_error(schema), MAX_ERROR_CHARS)


def value_error(schema: dict[str, Any], value: Any) -> str:
    """Return why the value does not fit the schema, or "" if it fits. The value is JSON."""
    try:
        return shorten(Validation(schema).find_error(value), MAX_ERROR_CHARS)
    except ValidationAborted as error:
        return f"the schema cannot be used: {shorten(str(error), MAX_ERROR_CHARS)}"
    except RecursionError:
        return "the schema cannot be used: it is nested too deeply"
    except (ValueError, ArithmeticError) as error:  # the rules do not check schemas of tool functions
        return f"the schema cannot be used: {shorten(f'{type(error).__name__}: {error}', MAX_ERROR_CHARS)}"
