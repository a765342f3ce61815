"""Schemas of MCP servers: a keyword that is not accepted is left out alone, and nothing is refused because of that."""

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from roboco.adapters.json_schema import schema_error, value_error
from roboco.adapters.mcp.reduced_schema import reduced_schema
from roboco.adapters.mcp.tool import EffectHints, describe_tool

STRING = {"type": "string"}
ZOD_EMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"


@pytest.mark.parametrize(
    ("value", "reduced", "left_out"),
    [
        (STRING | {"pattern": ZOD_EMAIL}, STRING, "pattern"),
        (STRING | {"nullable": True}, {"type": ["string", "null"]}, "nullable"),
        (STRING | {"nullable": False}, STRING, "nullable"),
        ({"enum": ["a"], "nullable": True}, {"anyOf": [{"enum": ["a"]}, {"type": "null"}]}, "nullable"),
        ({"type": "array", "items": []}, {"type": "array", "items": True}, "items"),
        ({"$ref": "#/properties/y", "title": "x"}, {"title": "x"}, "$ref"),
        ({"type": "file", "maxLength": 3}, {"maxLength": 3}, "type"),
        ({"minimum": 1, "exclusiveMinimum": True}, {"minimum": 1}, "exclusiveMinimum"),
        ({"patternProperties": {"a": {}}, "additionalProperties": False, "minProperties": 1}, {"minProperties": 1}, ""),
        ({"not": {"type": "string", "pattern": "(?=x)"}, "title": "x"}, {"title": "x"}, ""),
        ({"if": {"pattern": "(?=x)"}, "then": False, "title": "x"}, {"title": "x"}, ""),
        ({"oneOf": [STRING | {"pattern": "(?=x)"}, STRING]}, {"anyOf": [STRING, STRING]}, ""),
        ({"items": STRING, "prefixItems": []}, {}, ""),
        ({"contains": {}, "minContains": "0"}, {}, ""),
        ({"contains": {"pattern": "(?=x)"}, "maxContains": 1}, {"contains": {}}, ""),
        ({"$id": "https://a.example/b", "type": "string"}, True, ""),
    ],
)
def test_keyword_that_is_not_accepted_is_left_out_alone(value: Any, reduced: Any, left_out: str) -> None:
    schema = {"type": "object", "properties": {"x": value, "y": {"type": "integer"}}, "required": ["y"]}
    made, places = _reduced(schema)
    assert made == schema | {"properties": {"x": reduced, "y": {"type": "integer"}}}
    assert places[0].startswith(f"#/properties/x/{left_out}".rstrip("/"))
    assert value_error(made, {"y": "none"}) == "$.y: 'none' is not of type 'integer'"


@pytest.mark.parametrize(
    ("schema", "reduced"),
    [
        ({"type": ["object", "null"], "title": "x"}, {"type": "object", "title": "x"}),
        ({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"]}, None),
    ],
)
def test_root_keeps_what_can_be_kept(schema: Any, reduced: Any) -> None:
    assert _reduced(schema)[0] == (reduced or {"properties": {"a": {}}, "$defs": {"a": {}}, "required": ["a"]})


@pytest.mark.parametrize("schema", [{"type": "array"}, 5, {"allOf": [{}] * 16_000, "nullable": True}])
def test_schema_that_cannot_be_used_at_all(schema: Any) -> None:
    assert isinstance(reduced_schema(schema), str)
    assert describe_tool("text", schema, EffectHints()).input_schema == {"type": "object"}


def test_definition_that_lost_something_is_excluded_from_nothing() -> None:
    schema = {"$defs": {"a": STRING | {"pattern": "(?=x)"}}, "properties": {"x": {"not": {"$ref": "#/$defs/a"}}}}
    assert _reduced(schema)[0] == {"$defs": {"a": STRING}, "properties": {"x": {}}}


def test_patterns_that_are_too_heavy_together_are_left_out() -> None:
    schema = {"properties": {str(number): {"pattern": f"a{{900}}{number}"} for number in range(4)}}
    made, places = _reduced(schema)
    assert list(made["properties"].values()) == [{"pattern": "a{900}0"}, {"pattern": "a{900}1"}, {}, {}]
    assert places == ("#/properties/2/pattern", "#/properties/3/pattern")


def test_description_names_what_is_left_out() -> None:
    properties = {f"p{number}\ud800{'x' * 99}": {"pattern": "(?=x)"} for number in range(9)}
    tool = describe_tool("Buy.", {"type": "object", "properties": properties}, EffectHints())
    assert tool.description.startswith("Buy. (Left out of the server's schema of the arguments: #/properties/p0")
    assert tool.description.endswith(" and 5 more.)")
    assert len(tool.description.encode()) < 500


def test_reduction_takes_a_bounded_time() -> None:
    schema = {"properties": {f"p{number}": {"pattern": f"(?=x){'a' * 20}{number}"} for number in range(900)}}
    begun = time.thread_time()
    _reduced(schema)
    assert time.thread_time() - begun < 1


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x", "ab"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
_LEAVES = st.sampled_from(
    [
        *(True, False, {}, {"type": "string"}, {"type": "integer"}, {"pattern": "(?=x)"}, {"pattern": "x"}),
        *({"const": 1}, {"minimum": 2}, {"required": ["a"]}, {"dependentRequired": {"a": ["b"]}}, {"enum": [1, "x"]}),
        *({"minProperties": 2}, {"unevaluatedProperties": False}, {"$ref": "#/$defs/d"}, {"$ref": "#/properties/a"}),
    ]
)


def _around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=2)
    several = st.lists(inner, min_size=1, max_size=2)
    parts: dict[str, st.SearchStrategy[Any]] = {
        **dict.fromkeys(("properties", "dependentSchemas"), named),
        "patternProperties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
        **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), several),
        **dict.fromkeys(("additionalProperties", "items", "contains", "propertyNames"), inner),
        **dict.fromkeys(("not", "if", "then", "else"), inner),
        **dict.fromkeys(("minContains", "maxContains"), st.integers(0, 2)),
        "unevaluatedItems": st.booleans(),
    }
    return st.fixed_dictionaries({}, optional=parts)


@settings(max_examples=300)
@given(st.recursive(_LEAVES, _around, max_leaves=8), _LEAVES, st.lists(_VALUES, min_size=5, max_size=5))
def test_reduced_schema_refuses_no_value_that_the_schema_accepts(schema: Any, definition: Any, values: Any) -> None:
    root = {"properties": {"a": schema}, "$defs": {"d": definition}}
    made = reduced_schema(root)
    assert not isinstance(made, str)
    assert schema_error(made[0]) == ""
    for value in values:
        try:
            fits = Draft202012Validator(root).is_valid({"a": value})
        except RecursionError:
            return
        assert not fits or value_error(made[0], {"a": value}) == "", (made, value)


def _reduced(schema: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    made = reduced_schema(schema)
    assert not isinstance(made, str), made
    assert schema_error(made[0]) == ""
    return made
