"""The values inside a value that pydantic serializes with it, found without serializing them."""

import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel, PlainSerializer, RootModel, WrapSerializer


def serialized_parts(value: Any) -> Iterable[Any]:
    """Return the values in a container, model or dataclass that pydantic serializes unchanged.

    Excluded fields, and values that a custom serializer of the model changes, are left out.
    """
    match value:
        case None | str() | int() | float():
            return ()
        case RootModel():
            return serialized_parts(value.root)
        case BaseModel():
            return _fields(value, value.__dict__ | (value.__pydantic_extra__ or {}))
        case dict():
            return value.values()
        case list() | tuple() | set() | frozenset() | deque():
            return value
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            named = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
            return _fields(value, named) if hasattr(value, "__pydantic_fields__") else named.values()
        case _:
            return ()


def _fields(value: Any, named: dict[str, Any]) -> Iterator[Any]:
    decorators, fields = value.__pydantic_decorators__, type(value).__pydantic_fields__
    own = {name for one in decorators.field_serializers.values() for name in one.info.fields}
    if decorators.model_serializers or "*" in own:
        return
    extra = getattr(value, "__pydantic_extra__", None) or ()
    for name, part in named.items():
        field = fields.get(name)
        if name in own or (field is None and name not in extra) or (field is not None and _is_special(field)):
            continue
        yield part


def _is_special(field: Any) -> bool:
    """Return True if the field is excluded, always or under a condition, or has a serializer."""
    excluded = field.exclude or getattr(field, "exclude_if", None)
    return bool(excluded) or any(isinstance(one, PlainSerializer | WrapSerializer) for one in field.metadata)
