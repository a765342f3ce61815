"""Results of Python functions as JSON. Every type that a tool may take as an argument may also be returned."""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any

from pydantic_core import to_jsonable_python

from roboco.domain.canonical_json import validated_json, well_formed_json
from roboco.ports.file import File

MAX_RANGE = 1_000_000
"""Maximum number of values of a range, which holds none of them itself."""
ALLOWED_TYPES = (
    "texts, numbers, lists, sets, objects, dates, times, Decimal, UUID, Path, Enum, UTF-8 bytes, dataclasses and "
    "pydantic models"
)


def to_json(result: Any, tool: str) -> Any:
    """Return the result as JSON. Raise TypeError, which names the tool, the type without JSON, and the remedy."""
    try:
        plain = well_formed_json(result)
        _check(plain)
        return validated_json(to_jsonable_python(plain, fallback=_convert_other))
    except RecursionError:
        problem = "it is nested too deep"
    except UnicodeDecodeError:
        problem = "it holds bytes that are not UTF-8, write them as base64"
    except (ValueError, TypeError, AttributeError) as error:  # AttributeError: a field of a dataclass has no value
        problem = str(error)
    kind = type(result).__name__
    message = f"tool {tool!r} returned a value of type {kind} that is not JSON: {problem}; return {ALLOWED_TYPES}"
    raise TypeError(message)


def _check(value: Any) -> None:
    """Raise ValueError if lists and objects hold what pydantic would read: a file, or an iterator without an end."""
    match value:
        case File():
            raise ValueError("it holds a File, which only tools return: return files alone or in a list")
        case Iterator():
            raise ValueError(f"it holds a value of type {type(value).__name__}, make a list of it")
        case list() | dict():
            for item in value.values() if isinstance(value, dict) else value:
                _check(item)
        case _:
            return


def _convert_other(value: Any) -> Any:
    """Return a value of a type that pydantic does not know as one that it knows."""
    match value:
        case Mapping():
            return dict(value)
        case range() | KeysView() | ValuesView() | ItemsView() if len(value) <= MAX_RANGE:
            return list(value)
        case _:
            raise ValueError(f"it holds a value of type {type(value).__name__}")
