"""Schemas of MCP servers: only an unsupported keyword is left out, and no schema is refused because of it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from roboco.domain.team.tool_listing import ListedTool
from roboco.schemas.json_schema import schema_error, value_error
from roboco.schemas.reduced_schema import reduced_schema
from roboco.tools.mcp.listing import ListedTools

STRING = {"type": "string"}
ZOD_EMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"


@pytest.mark.parametrize(
    ("value", "reduced", "left_out"),
    [
        (STRING | {"pattern": ZOD_EMAIL}, STRING, "pattern"),
        (STRING | {"nullable": True}, {"type": ["string", "null"]}, "nullable"),
        ({"enum": ["a"], "nullable": True}, {"anyOf": [{"enum": ["a"]}, {"type": "null"}]}, "nullable"),
        ({"type": "array", "items": []}, {"type": "array", "items": True}, "items"),
        ({"$ref": "#/properties/y", "title": "x"}, {"title": "x"}, "$ref"),
        ({"patternProperties": {"a": {}}, "additionalProperties": False, "minProperties": 1}, {"minProperties": 1}, ""),
        ({"not": {"type": "string", "pattern": "(?=x)"}, "title": "x"}, {"title": "x"}, ""),
        ({"oneOf": [STRING | {"pattern": "(?=x)"}, STRING]}, {"anyOf": [STRING, STRING]}, ""),
        ({"contains": {}, "minContains": "0"}, {}, ""),
        ({"contains": {"pattern": "(?=x)"}, "maxContains": 1}, {"contains": {}}, ""),
        ({"$id": "https://a.example/b", "type": "string"}, True, ""),
    ],
)
def test_only_an_unsupported_keyword_is_left_out(value: Any, reduced: Any, left_out: str) -> None:
    schema = {"type": "object", "properties": {"x": value, "y": {"type": "integer"}}, "required": ["y"]}
    reduced_root, places = _reduce(schema)
    assert reduced_root == schema | {"properties": {"x": reduced, "y": {"type": "integer"}}}
    assert places[0].startswith(f"#/properties/x/{left_out}".rstrip("/"))
    assert value_error(reduced_root, {"y": "none"}) == '$.y: "none" is not of type "integer"'


@pytest.mark.parametrize(
    ("schema", "reduced"),
    [
        ({"type": ["object", "null"], "title": "x"}, {"type": "object", "title": "x"}),
        ({"$schema": None, "title": "x"}, {"title": "x"}),
        ({"$id": 7, "title": "x"}, {"title": "x"}),
        ({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"]}, None),
    ],
)
def test_root_keeps_its_supported_keywords(schema: Any, reduced: Any) -> None:
    assert _reduce(schema)[0] == (reduced or {"properties": {"a": {}}, "$defs": {"a": {}}, "required": ["a"]})


@pytest.mark.parametrize("schema", [{"type": "array"}, 5, {"allOf": [{}] * 16_000, "nullable": True}])
def test_unusable_schema_becomes_that_of_any_object(schema: Any) -> None:
    assert isinstance(reduced_schema(schema), str)
    assert _listed("text", schema).input_schema == {"type": "object"}


def test_patterns_that_are_too_heavy_together_are_left_out() -> None:
    schema = {"properties": {str(number): {"pattern": f"a{{900}}{number}"} for number in range(4)}}
    reduced_root, places = _reduce(schema)
    assert list(reduced_root["properties"].values()) == [{}] * 4
    assert places[0] == "#/properties/0/pattern"


def test_description_names_the_omitted_keywords() -> None:
    properties = {f"p{number}\ud800{'x' * 99}": {"pattern": "(?=x)"} for number in range(9)}
    tool = _listed("Buy.", {"type": "object", "properties": properties})
    assert tool.description.startswith("Buy. (Left out of the server's schema of the arguments: #/properties/p0")
    assert tool.description.endswith(" and 5 more.)")
    assert len(tool.description.encode()) < 500


def test_description_does_not_depend_on_the_order_of_sets() -> None:
    odd, other = {"pattern": "(?=x)"}, {"type": "file"}
    schemas = [
        {"properties": {"a": {"anyOf": [odd, STRING, other]}, "b": odd}},
        {"properties": {"b": odd, "a": {"anyOf": [STRING, other, odd]}}},
    ]
    assert len({_listed("Buy.", schema).description for schema in schemas}) == 1


_ANY_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x", "ab"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
_LEAF_SCHEMAS = st.sampled_from(
    [
        *(True, False, {}, {"type": "string"}, {"type": "integer"}, {"pattern": "(?=x)"}, {"pattern": "x"}),
        *({"const": 1}, {"minimum": 2}, {"required": ["a"]}, {"dependentRequired": {"a": ["b"]}}, {"enum": [1, "x"]}),
        *({"minProperties": 2}, {"unevaluatedProperties": False}, {"$ref": "#/$defs/d"}, {"$ref": "#/properties/a"}),
    ]
)


def _nested_schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
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


@settings(max_examples=150)
@given(
    st.recursive(_LEAF_SCHEMAS, _nested_schemas, max_leaves=8),
    _LEAF_SCHEMAS,
    st.lists(_ANY_VALUES, min_size=5, max_size=5),
)
def test_reduced_schema_refuses_no_value_that_the_schema_accepts(schema: Any, definition: Any, values: Any) -> None:
    root = {"properties": {"a": schema}, "$defs": {"d": definition}}
    reduced_root = reduced_schema(root)
    assert not isinstance(reduced_root, str)
    assert schema_error(reduced_root[0]) == ""
    for value in values:
        try:
            fits = Draft202012Validator(root).is_valid({"a": value})
        except RecursionError:
            return
        assert not fits or value_error(reduced_root[0], {"a": value}) == "", (reduced_root, value)


def _reduce(schema: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    reduced_root = reduced_schema(schema)
    assert not isinstance(reduced_root, str), reduced_root
    assert schema_error(reduced_root[0]) == ""
    return reduced_root


def _listed(description: str, schema: Any) -> ListedTool:
    """Return a tool as it is kept of a server's list."""
    found = ListedTools()
    found.add({"name": "one", "description": description, "inputSchema": schema}, lambda name: True, str, True)
    return found.tools["one"]
