"""JSON Schemas of callers."""

from typing import Any

import pytest

from roboco.schemas.json_schema import MAX_ERROR_CHARS, schema_error, value_error
from tests.faults.hostile import tenant
from tests.faults.hostile.producer import nested

NUMBER_SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (NUMBER_SCHEMA, ""),
        ({}, ""),
        ({"properties": {"pattern": {"type": "string"}, "patternProperties": {}}}, ""),
        ({"properties": {"x": {"anyOf": [{"pattern": "(?=x)"}]}}}, "not a regular expression of Rust's syntax"),
        ({"type": "array"}, "must be the schema of an object"),
        ({"items": {"type": "objct"}}, 'is no JSON Schema: $.items.type: "objct" is not'),
        ({"properties": {"x": {"pattern": r"\a"}}}, "is no JSON Schema"),
        ({"$ref": "#/$defs/a%62", "$defs": {"a%62": {}, "ab": {}}}, "does not lead to a schema in it"),
    ],
)
def test_a_schema_is_checked(schema: Any, expected: str) -> None:
    found = schema_error(schema)
    assert expected in found
    assert bool(expected) == bool(found)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"n": 1}, ""),
        ({"n": "1"}, '$.n: "1" is not of type "integer"'),
        ([], "$: "),
    ],
)
def test_a_value_is_checked(value: Any, expected: str) -> None:
    assert value_error(NUMBER_SCHEMA, value).startswith(expected) or expected in value_error(NUMBER_SCHEMA, value)
    assert bool(value_error(NUMBER_SCHEMA, value)) == bool(expected)


@pytest.mark.parametrize("ref", ["http://127.0.0.1:1/x.json", "file:///etc/passwd", "#/$defs/none"])
def test_an_external_reference_is_refused_and_not_fetched(ref: str) -> None:
    assert "does not lead to a schema in it" in schema_error({"$ref": ref})
    assert "the schema cannot be used" in value_error({"$ref": ref}, {})


def test_a_reference_to_itself_is_refused() -> None:
    assert "lead back to themselves" in schema_error({"$ref": "#"})
    assert "the schema cannot be used" in value_error({"$ref": "#"}, {})


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"multipleOf": float("nan")}, 1, 'is not of type "number"'),
        ({"multipleOf": 0}, 1, "less than or equal to the minimum of 0"),
        ({"uniqueItems": True}, nested(2000), "it is nested too deeply"),
    ],
)
def test_a_schema_that_the_validator_cannot_use_is_named(schema: dict[str, Any], value: Any, expected: str) -> None:
    """Tool functions of the operator have schemas that were never checked."""
    found = value_error(schema, value)
    assert found.startswith("the schema cannot be used: ")
    assert expected in found


def test_a_pattern_is_matched_in_linear_time() -> None:
    slow = {"properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
    assert "does not match" in value_error(slow, {"x": "a" * 5000 + "!"})
    assert value_error(slow, {"x": "aaa"}) == ""


def test_an_unsupported_pattern_of_a_tool_function_is_ignored() -> None:
    assert value_error({"properties": {"x": {"pattern": "^(?!a)"}}}, {"x": "a"}) == ""
    assert "is not of type" in value_error({"properties": {"x": {"pattern": "^(?!a)", "type": "string"}}}, {"x": 1})


def test_an_error_names_the_reason_of_each_alternative() -> None:
    kinds = {"properties": {"x": {"anyOf": [{"type": "integer"}, {"items": {"enum": ["a", "b"]}, "type": "array"}]}}}
    found = value_error(kinds, {"x": ["c"]})
    assert found.startswith('$.x: ["c"] is not valid under any of the schemas')
    assert found.endswith('$.x: ["c"] is not of type "integer"; $.x[0]: "c" is not one of "a", "b"')


def test_the_dialect_of_a_schema_is_neither_fetched_nor_used() -> None:
    schema = {
        "$schema": "http://127.0.0.1:1/x",
        "properties": {"x": {"$schema": "http://127.0.0.1:1/y", "type": "null"}},
    }
    assert schema_error(schema) == ""
    assert "is not of type" in value_error(schema, {"x": 1})


def test_a_value_that_is_too_long_to_explain_is_wrong_without_a_reason() -> None:
    schema = {"properties": {"x": {"anyOf": [{"type": "integer"}] * 20}}}
    assert "too large to say why" in value_error(schema, {"x": "a" * 200_000})


@pytest.mark.parametrize("name", tenant.REFUSED_SCHEMAS)
def test_a_hostile_schema_is_refused_with_a_short_error(name: str) -> None:
    assert 0 < len(schema_error(tenant.REFUSED_SCHEMAS[name])) <= MAX_ERROR_CHARS


@pytest.mark.parametrize("name", tenant.ENDLESS_SCHEMAS)
def test_a_validation_without_end_is_stopped(name: str) -> None:
    schema, value = tenant.ENDLESS_SCHEMAS[name]
    assert schema_error(schema) == ""
    assert "a validation takes more than" in value_error(schema, value)


def test_the_error_for_any_value_is_short() -> None:
    long = "n" * 100_000
    closed = {"additionalProperties": {"additionalProperties": {"type": "integer"}}}
    assert len(value_error(closed, {long: {long: long}})) <= MAX_ERROR_CHARS
    assert len(value_error({"additionalProperties": False}, {f"{long}{n}": 1 for n in range(5)})) <= MAX_ERROR_CHARS
    assert "takes more than" in value_error({"properties": {"x": {"maximum": 5}}}, {"x": 10**4000})
    assert len(value_error({"anyOf": [{"const": long}] * 50}, {})) <= MAX_ERROR_CHARS
