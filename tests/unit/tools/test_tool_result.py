"""Results of Python functions as JSON."""

import json
import math
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, PlainSerializer, RootModel, TypeAdapter, computed_field
from pydantic.dataclasses import dataclass as checked_dataclass

from roboco.domain.canonical_json import canonical_json
from roboco.tools import tool_result
from roboco.tools.tool_result import to_json


class Address(BaseModel):
    """A place."""

    city: str
    zip_code: int = 0


class Ratio(BaseModel):
    """A number."""

    value: float


class Colour(Enum):
    """A colour."""

    RED = "red"
    MIXED = (1, date(2026, 1, 2))


class Word(StrEnum):
    """A word."""

    YES = "yes"


@dataclass
class Visit:
    """A visit to places."""

    day: date
    places: list[Address]


@checked_dataclass
class Stay:
    """A stay at a place."""

    until: date


class Pair(BaseModel):
    """Two values."""

    left: Any
    right: Any


@checked_dataclass
class CheckedPair:
    """Two values."""

    left: Any
    right: Any


class Tree(RootModel[list["Tree"]]):
    """Nested lists."""


class Short(BaseModel):
    """A model whose JSON is shorter than its fields."""

    left: int
    hidden: list[Any] = Field(exclude=True)
    summed: Annotated[list[int], PlainSerializer(sum)]
    more: Tree


serialized: list[str] = []


class Traced(BaseModel):
    """A model that records when it is serialized."""

    @computed_field
    def seen(self) -> int:
        """Record the serialization."""
        serialized.append("seen")
        return 1


Point = namedtuple("Point", "x y")
ID = UUID("88b07c4d-1758-4f22-9393-60e90750118c")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("text", "text"),
        ([1, 2.5, {"a": True}], [1, 2.5, {"a": True}]),
        (Address(city="x"), {"city": "x", "zip_code": 0}),
        ({"a\ud800": "\ud83d\ude00"}, {"a\ufffd": "\U0001f600"}),
        (("a", "\ud800"), ["a", "\ufffd"]),
        ({1: "a", None: 2, "b": 3}, {"1": "a", "null": 2, "b": 3}),
        ([Address(city="\ud800")], [{"city": "\ufffd", "zip_code": 0}]),
        (date(2026, 1, 2), "2026-01-02"),
        ({date(2026, 1, 2): datetime(2026, 1, 2, 3, tzinfo=UTC)}, {"2026-01-02": "2026-01-02T03:00:00Z"}),
        (timedelta(seconds=90), "PT1M30S"),
        ({"b", "a", "c"}, ["a", "b", "c"]),
        (frozenset({Colour.RED, Word.YES}), ["red", "yes"]),
        (Colour.MIXED, [1, "2026-01-02"]),
        ({Word.YES: 1, Colour.RED: 2}, {"yes": 1, "red": 2}),
        (Decimal("1.10"), "1.10"),
        ({ID: ID}, {str(ID): str(ID)}),
        (Path("a/b"), "a/b"),
        ("ä".encode(), "ä"),
        (Visit(date(2026, 1, 2), [Address(city="x")]), {"day": "2026-01-02", "places": [{"city": "x", "zip_code": 0}]}),
        (Stay(date(2026, 1, 2)), {"until": "2026-01-02"}),
        (Point(1, 2), [1, 2]),
        (deque([1, 2]), [1, 2]),
        (range(3), [0, 1, 2]),
        ({"a": 1}.keys(), ["a"]),
        (MappingProxyType(OrderedDict(a=1)), {"a": 1}),
    ],
)
def test_results_are_converted_to_json(value: object, expected: object) -> None:
    assert json.loads(canonical_json(to_json(value, "t"))) == expected


@pytest.mark.parametrize(
    "value", [date(2026, 1, 2), {"a"}, Decimal("1.10"), ID, Path("a"), "ä".encode(), Visit(date(2026, 1, 2), [])]
)
def test_result_is_accepted_as_an_argument(value: object) -> None:
    assert TypeAdapter(type(value)).validate_python(to_json(value, "t")) == value


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (object(), "returned a value of type object that is not JSON: it holds a value of type object; return texts,"),
        ({"a": [print]}, "it holds a value of type builtin_function_or_method; return"),
        (b"\xff", "it holds bytes that are not UTF-8, write them as base64"),
        ((n for n in "ab"), "it holds a value of type generator, make a list of it"),
        (math.nan, "Out of range float values"),
        ([math.inf], "Out of range float values"),
        (Ratio(value=math.nan), "Out of range float values"),
        ({object(): 2}, "it holds a value of type object"),
        ({(1, 2): 2}, "it holds an object with a key of type tuple"),
        ({1: "a", "1": "b"}, "two keys of an object are the same text"),
        (range(10**12), "it has more than 1000000 values"),
    ],
)
def test_value_that_is_not_json_raises_type_error_with_the_remedy(value: object, problem: str) -> None:
    with pytest.raises(
        TypeError, match=r"tool 't' returned a value of type \w+ that is not JSON: .*; return texts, "
    ) as failed:
        to_json(value, "t")
    assert problem in str(failed.value)


def test_a_value_that_contains_itself_raises_type_error() -> None:
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(TypeError, match="nested deeper than 64 levels"):
        to_json(circle, "t")


@pytest.mark.parametrize("kind", [Pair, CheckedPair])
def test_shared_models_are_counted_before_they_are_serialized(
    monkeypatch: pytest.MonkeyPatch, kind: Callable[..., object]
) -> None:
    monkeypatch.setattr(tool_result, "MAX_VALUES", 1000)
    value: object = 1
    for _ in range(12):
        value = kind(left=value, right=value)
    serialized.clear()
    with pytest.raises(TypeError, match="more than 1000 values"):
        to_json(kind(left=value, right=Traced()), "t")
    assert serialized == []


def test_fields_that_are_not_serialized_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_result, "MAX_VALUES", 20)
    value = Short(left=1, hidden=[1] * 100, summed=[1] * 100, more=Tree([Tree([])]))
    value.hidden = [value]
    assert to_json(value, "t") == {"left": 1, "summed": 100, "more": [[]]}


def test_a_field_without_a_value_is_named() -> None:
    for kind in (Visit, Stay):
        with pytest.raises(TypeError, match=rf"field '\w+' of a {kind.__name__} has no value; return"):
            to_json([object.__new__(kind)], "t")


def test_shared_values_are_counted_at_each_occurrence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_result, "MAX_VALUES", 1000)
    value: list[object] = []
    for _ in range(60):
        value = [value, value]
    with pytest.raises(TypeError, match="more than 1000 values"):
        to_json(value, "t")
