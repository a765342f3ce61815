"""JSON Schemas from outside (goals, client tools, MCP tools): are they sound, and does a value fit them?

Schemas and values are hostile input. No code here calls Python's `re`, fetches anything, or works longer than
a bounded number of steps: `schema_rules` refuses schemas, `schema_validator` counts the work of a validation.
"""

from typing import Any

from roboco.adapters.schema_rules import unsound
from roboco.adapters.schema_validator import Unusable, Validation, shortened

MOST_SHOWN = 400
"""Characters of a mistake at most: a model or a person reads it."""


def schema_mistake(schema: dict[str, Any]) -> str:
    """Return why the JSON Schema of an object is refused, or "" if it is accepted."""
    return shortened(unsound(schema), MOST_SHOWN)


def mistake(schema: dict[str, Any], value: Any) -> str:
    """Return why the value does not fit the schema, or "" if it fits. The value is JSON."""
    try:
        return shortened(Validation(schema).mistake(value), MOST_SHOWN)
    except Unusable as error:
        return f"the schema cannot be used: {shortened(str(error), MOST_SHOWN)}"
    except RecursionError:
        return "the schema cannot be used: it is nested too deeply"
    except (ValueError, ArithmeticError) as error:  # no rule has checked the schemas of the operator's tool functions
        return f"the schema cannot be used: {shortened(f'{type(error).__name__}: {error}', MOST_SHOWN)}"
