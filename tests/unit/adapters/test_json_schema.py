"""JSON Schemas that callers bring."""

import time
from typing import Any

import pytest

from roboco.adapters.json_schema import mistake, schema_mistake

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (NUMBER, ""),
        ({}, ""),
        ({"properties": {"pattern": {"type": "string"}, "patternProperties": {}}}, ""),
        ({"properties": {"x": {"pattern": "^[a-z]+$"}}}, ""),
        ({"properties": {"x": {"anyOf": [{"pattern": "(?=x)"}]}}}, "not a regular expression of Rust's syntax"),
        ({"items": {"patternProperties": {"a": {}}}}, "not supported"),
        ({"type": "array"}, "must be the schema of an object"),
        ({"type": "objct"}, "is no JSON Schema"),
        ({"properties": 5}, "is no JSON Schema"),
    ],
)
def test_a_schema_is_checked(schema: Any, told: str) -> None:
    found = schema_mistake(schema)
    assert told in found
    assert bool(told) == bool(found)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"n": 1}, ""),
        ({}, "'n' is a required property"),
        ({"n": "1"}, "$.n: '1' is not of type 'integer'"),
        ([], "$: "),
    ],
)
def test_a_value_is_checked(value: Any, told: str) -> None:
    assert mistake(NUMBER, value).startswith(told) or told in mistake(NUMBER, value)
    assert bool(mistake(NUMBER, value)) == bool(told)


@pytest.mark.parametrize("ref", ["http://127.0.0.1:1/x.json", "file:///etc/passwd", "#/$defs/none"])
def test_nothing_is_fetched(ref: str) -> None:
    assert "the schema cannot be used" in mistake({"$ref": ref}, {})


def test_a_schema_within_itself_is_read() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#"}}, "additionalProperties": False}
    assert mistake(tree, {"child": {"child": {}}}) == ""
    assert "unexpected" in mistake(tree, {"child": {"x": 1}})


def test_a_schema_that_never_ends_is_refused() -> None:
    assert "the schema cannot be used" in mistake({"$ref": "#"}, {})


def test_no_value_makes_a_pattern_slow() -> None:
    slow = {"properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
    began = time.monotonic()
    assert "does not match" in mistake(slow, {"x": "a" * 5000 + "!"})
    assert time.monotonic() - began < 30, "backtracking would not end in the life of the universe"
    assert mistake(slow, {"x": "aaa"}) == mistake(slow, {"x": 5}).replace("$.x: 5 is not of type 'string'", "") == ""
