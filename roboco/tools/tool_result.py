"""Results of Python functions as JSON. Every type that a tool may take as an argument may also be returned."""

import dataclasses
import json
from collections import deque
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from enum import Enum
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic_core import to_jsonable_python

from roboco.domain.canonical_json import MAX_DEPTH, canonical_json, validated_json
from roboco.ports.file import File
from roboco.tools.result_parts import serialized_parts

MAX_VALUES = 1_000_000
"""Maximum number of values in one result, including those in lists and objects."""
ALLOWED_TYPES = (
    "texts, numbers, lists, sets, objects, dates, times, Decimal, UUID, Path, Enum, UTF-8 bytes, dataclasses and "
    "pydantic models"
)


def to_json(result: Any, tool: str) -> Any:
    """Return the result as JSON. Raise TypeError, which names the tool, the type without JSON, and the remedy."""
    try:
        return validated_json(_Conversion(MAX_VALUES).convert(result))
    except RecursionError:
        problem = "it is nested too deep"
    except (ValueError, TypeError) as error:
        problem = str(error)
    kind = type(result).__name__
    message = f"tool {tool!r} returned a value of type {kind} that is not JSON: {problem}; return {ALLOWED_TYPES}"
    raise TypeError(message)


class _Conversion:
    """One conversion. It raises ValueError after MAX_VALUES values, and below MAX_DEPTH levels.

    Pydantic serializes a value once per reference to it, so a model is counted before pydantic serializes it.
    """

    def __init__(self, max_values: int) -> None:
        self._values_left = max_values

    def convert(self, value: Any, depth: int = MAX_DEPTH) -> Any:
        """Return the value in JSON's types."""
        self._count(depth)
        match value:
            case Enum():
                return self.convert(value.value, depth - 1)
            case None | str() | int() | float():
                return value
            case File():
                raise ValueError("it holds a File inside another value, return files alone or in a list")
            case BaseModel():
                _Conversion(self._values_left).check_size(value, depth)
                return self.convert(value.model_dump(mode="json"), depth)
            case Mapping():
                return self._convert_object(value, depth)
            case set() | frozenset():
                return sorted(self._convert_list(value, depth), key=canonical_json)  # the same in each process
            case list() | tuple() | deque() | range() | KeysView() | ValuesView() | ItemsView():
                return self._convert_list(value, depth)
            case _:
                return self._convert_other(value, depth)

    def check_size(self, value: Any, depth: int) -> None:
        """Raise ValueError if pydantic would serialize too many values, or too deep."""
        self._count(depth)
        for part in serialized_parts(value):
            self.check_size(part, depth - 1)

    def _count(self, depth: int) -> None:
        self._values_left -= 1
        if self._values_left < 0:
            raise ValueError(f"it has more than {MAX_VALUES} values")
        if depth < 0:
            raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")

    def _convert_list(self, values: Iterable[Any], depth: int) -> list[Any]:
        return [self.convert(value, depth - 1) for value in values]

    def _convert_object(self, pairs: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs.items():
            name = _json_key(key)
            if name in found:
                raise ValueError("two keys of an object are the same text in JSON")
            found[name] = self.convert(value, depth - 1)
        return found

    def _convert_other(self, value: Any, depth: int) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = _dataclass_fields(value)
            if hasattr(value, "__pydantic_serializer__"):
                _Conversion(self._values_left).check_size(value, depth)
                return self.convert(TypeAdapter(type(value)).dump_python(value, mode="json"), depth)
            return self._convert_object(fields, depth)
        return _convert_leaf(value)


def _dataclass_fields(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass. Raise ValueError if a field has no value."""
    names = [field.name for field in dataclasses.fields(value)]
    for name in names:
        if not hasattr(value, name):
            raise ValueError(f"field {name!r} of a {type(value).__name__} has no value")
    return {name: getattr(value, name) for name in names}


def _convert_leaf(value: Any) -> Any:
    """Return the value as pydantic serializes it. Raise ValueError if it has no JSON."""
    kind = type(value).__name__
    if isinstance(value, Iterator):  # may have no end
        raise ValueError(f"it holds a value of type {kind}, make a list of it")
    try:
        return to_jsonable_python(value)
    except UnicodeDecodeError as error:
        raise ValueError("it holds bytes that are not UTF-8, write them as base64") from error
    except ValueError as error:
        raise ValueError(f"it holds a value of type {kind}") from error


def _json_key(key: Any) -> str:
    match key:
        case Enum():
            return _json_key(key.value)
        case str():
            return key
        case None | int() | float():
            return json.dumps(key, allow_nan=False)
        case _:
            text = _convert_leaf(key)
            if not isinstance(text, str):
                raise ValueError(f"it holds an object with a key of type {type(key).__name__}")
            return text
