"""Results of Python functions as JSON."""

import json
import math
from collections import OrderedDict, deque, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

import pytest
from pydantic import BaseModel
from pydantic.dataclasses import dataclass as checked_dataclass

from roboco.domain.canonical_json import canonical_json
from roboco.ports.file import File
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
        ({1: "a", "b": 3}, {"1": "a", "b": 3}),
        ([Address(city="\ud800")], [{"city": "\ufffd", "zip_code": 0}]),
        (date(2026, 1, 2), "2026-01-02"),
        ({date(2026, 1, 2): datetime(2026, 1, 2, 3, tzinfo=UTC)}, {"2026-01-02": "2026-01-02T03:00:00Z"}),
        (timedelta(seconds=90), "PT1M30S"),
        ({"a"}, ["a"]),
        (frozenset({Colour.RED}), ["red"]),
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
        (range(10**12), "it holds a value of type range"),
        ({"a": [File("a.txt", "text")]}, "it holds a File, which only tools return"),
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
