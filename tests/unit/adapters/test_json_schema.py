"""JSON Schemas that callers bring."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from roboco.adapters.json_schema import MAX_ERROR_CHARS, schema_error, value_error
from tests.faults.hostile import tenant
from tests.faults.hostile.producer import nested

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
    found = schema_error(schema)
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
    assert value_error(NUMBER, value).startswith(told) or told in value_error(NUMBER, value)
    assert bool(value_error(NUMBER, value)) == bool(told)


@pytest.mark.parametrize("ref", ["http://127.0.0.1:1/x.json", "file:///etc/passwd", "#/$defs/none"])
def test_nothing_is_fetched(ref: str) -> None:
    assert "does not lead to a schema in it" in schema_error({"$ref": ref})
    assert "the schema cannot be used" in value_error({"$ref": ref}, {})


def test_a_schema_within_itself_is_read() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#"}}, "additionalProperties": False}
    assert schema_error(tree) == ""
    assert value_error(tree, {"child": {"child": {}}}) == ""
    assert "unexpected" in value_error(tree, {"child": {"x": 1}})


def test_a_schema_that_never_ends_is_refused() -> None:
    assert "lead back to themselves" in schema_error({"$ref": "#"})
    assert "the schema cannot be used" in value_error({"$ref": "#"}, {})


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ({"multipleOf": float("nan")}, 1, "ValueError: "),
        ({"multipleOf": 0}, 1, "ZeroDivisionError: "),
        ({"uniqueItems": True}, nested(2000), "it is nested too deeply"),
    ],
)
def test_a_schema_that_the_validator_cannot_use_is_named(schema: dict[str, Any], value: Any, told: str) -> None:
    """Tool functions of the operator have schemas that no rule has checked."""
    found = value_error(schema, value)
    assert found.startswith("the schema cannot be used: ")
    assert told in found


def test_no_value_makes_a_pattern_slow() -> None:
    slow = {"properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
    assert "does not match" in value_error(slow, {"x": "a" * 5000 + "!"})
    assert value_error(slow, {"x": "aaa"}) == ""


def test_a_pattern_of_a_tool_function_that_rust_does_not_have_decides_nothing() -> None:
    assert value_error({"properties": {"x": {"pattern": "^(?!a)"}}}, {"x": "a"}) == ""


@pytest.mark.parametrize("name", tenant.REFUSED_SCHEMAS)
def test_a_hostile_schema_is_refused_in_few_words(name: str) -> None:
    assert 0 < len(schema_error(tenant.REFUSED_SCHEMAS[name])) <= MAX_ERROR_CHARS


@pytest.mark.parametrize("name", tenant.ENDLESS_SCHEMAS)
def test_an_endless_validation_is_ended(name: str) -> None:
    schema, value = tenant.ENDLESS_SCHEMAS[name]
    assert schema_error(schema) == ""
    assert "a validation takes more than" in value_error(schema, value)


def test_a_mistake_is_short_whatever_the_value_holds() -> None:
    long = "n" * 100_000
    closed = {"additionalProperties": {"additionalProperties": {"type": "integer"}}}
    assert len(value_error(closed, {long: {long: long}})) <= MAX_ERROR_CHARS
    assert len(value_error({"additionalProperties": False}, {f"{long}{n}": 1 for n in range(5)})) <= MAX_ERROR_CHARS
    assert "a number of 16610 bits" in value_error({"properties": {"x": {"maximum": 5}}}, {"x": 10**5000})
    assert len(value_error({"anyOf": [{"const": long}] * 50}, {})) <= MAX_ERROR_CHARS


@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {}}, "$ref": "#/definitions/a"},
        {"$id": "urn:x", "title": "t", "x-order": 1, "properties": {"x": {"format": "date", "examples": [1]}}},
        {"$defs": {"a/b~c": {}}, "properties": {"x": {"$ref": "#/$defs/a~1b~0c"}}},
        {"properties": {"x": {"oneOf": [{"type": "null"}], "discriminator": {"propertyName": "y"}}}},
    ],
)
def test_usual_schemas_are_accepted(schema: dict[str, Any]) -> None:
    assert schema_error(schema) == ""


NUMBERS = st.sampled_from([0, 1, 2, -1, 1.0, 0.5, 2.5, 1e300, 10**20])
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, st.sampled_from(["", "a", "ab", "b1"]))
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)
COUNTS = st.integers(0, 3)


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    named = st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    listed = st.lists(inner, min_size=1, max_size=3)
    names = st.lists(st.sampled_from("abc"), max_size=2, unique=True)
    kinds = st.sampled_from(["string", "number", "integer", "boolean", "object", "array", "null"])
    fields: dict[str, st.SearchStrategy[Any]] = {
        "type": kinds | st.lists(kinds, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "pattern": st.sampled_from(["^a", "b$", "[0-9]"]),
        "required": names,
        "dependentRequired": st.dictionaries(st.sampled_from("abc"), names, max_size=2),
        "uniqueItems": st.booleans(),
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), NUMBERS),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), COUNTS),
        **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), COUNTS),
        **dict.fromkeys(("properties", "dependentSchemas"), named),
        **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), listed),
        **dict.fromkeys(("items", "additionalProperties", "contains", "propertyNames", "not"), inner),
        **dict.fromkeys(("if", "then", "else"), inner),
    }
    return st.fixed_dictionaries({}, optional=fields)


REF = st.sampled_from([{"$ref": "#/$defs/a"}, {"$ref": "#/definitions/b"}])
SCHEMAS = st.recursive(st.booleans() | REF, _schemas, max_leaves=8)


@settings(max_examples=50, deadline=None)
@given(schema=_schemas(SCHEMAS), a=_schemas(st.booleans()), b=_schemas(st.booleans()), value=VALUES)
def test_a_value_fits_as_another_validator_says(
    schema: dict[str, Any], a: dict[str, Any], b: dict[str, Any], value: Any
) -> None:
    whole = {**schema, "$defs": {"a": a}, "definitions": {"b": b}}
    told = schema_error({**whole, "type": "object"})
    assert told == ""
    assert (value_error(whole, value) == "") == Draft202012Validator(whole).is_valid(value)
