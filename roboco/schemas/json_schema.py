"""Checks of untrusted JSON Schemas (goals, client tools, MCP tools), and of values against them.

Schemas and values are hostile input. `rules` refuses schemas, `work` bounds the work of a validation, and
`validator` calls the library jsonschema-rs, which fetches nothing.
"""

from typing import Any

from roboco.schemas.rules import find_schema_error, shorten
from roboco.schemas.work import check_work

MAX_ERROR_CHARS = 400
"""Characters of an error message: a model or a person reads it."""


def schema_error(schema: dict[str, Any]) -> str:
    """Return why the JSON Schema of an object is refused, or "" if it is accepted."""
    from roboco.schemas.validator import find_schema_mistake

    return shorten(find_schema_error(schema) or find_schema_mistake(schema), MAX_ERROR_CHARS)


def value_error(schema: dict[str, Any], value: Any) -> str:
    """Return why the value does not fit the schema, or "" if it fits. The value is JSON."""
    from roboco.schemas.validator import find_error

    try:
        return shorten(find_error(schema, value, check_work(schema, value)), MAX_ERROR_CHARS)
    except RecursionError:
        return "the schema cannot be used: it is nested too deeply"
    except ValueError as error:  # the rules do not check schemas of tool functions
        return f"the schema cannot be used: {shorten(getattr(error, 'message', str(error)), MAX_ERROR_CHARS)}"
