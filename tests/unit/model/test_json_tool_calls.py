"""JSON tool calls: the description of tools, the requested reply format, and the conversation without calls."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.domain.team.model_profile import ModelProfile
from roboco.model.json_tool_calls import MAX_CALLS, json_request, parse_reply, response_format
from roboco.model.plain_messages import plain_messages
from roboco.model.strict_schema import ANY_VALUE, is_strict, strict_schema
from roboco.model.tool_descriptions import describe_tools
from roboco.ports.model import Request
from roboco.schemas.json_schema import schema_error
from tests.support.processor_time import assert_costs_at_most

TEXT = {"type": "string"}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
KEYWORDS = {"type", "properties", "required", "additionalProperties", "items", "anyOf", "enum"}


def closed_object(**properties: Any) -> dict[str, Any]:
    """Return the schema of a closed object, all of whose properties are required."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def tool(schema: dict[str, Any] | None = None, name: str = "go", description: str = "goes") -> dict[str, Any]:
    """Return a tool with this schema of arguments."""
    function: dict[str, Any] = {"name": name, "description": description}
    return {"type": "function", "function": function | ({} if schema is None else {"parameters": schema})}


def request(*tools: dict[str, Any], **more: Any) -> Request:
    """Return a request to a model that answers with JSON."""
    return Request(ModelProfile(model="m", tool_calls="json"), ({"role": "user", "content": "go"},), tools, **more)


NARROWED_SCHEMAS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "limits go": (
        closed_object(
            a={"type": "string", "pattern": "a+", "format": "date", "maxLength": 5, "default": "a", "description": "x"}
        ),
        closed_object(a=TEXT),
    ),
    "objects are closed": (
        {"properties": {"a": TEXT, "b": TEXT}, "required": ["b", "c"]},
        closed_object(a=TEXT, b=TEXT) | {"required": ["b"]},
    ),
    "constants are enums": (
        closed_object(a={"const": "x"}, b={"const": 5}),
        closed_object(a=TEXT | {"enum": ["x"]}, b={"enum": [5]}),
    ),
    "enums with null": (
        closed_object(a={"type": ["string", "null"], "enum": ["x", None]}),
        closed_object(a={"enum": ["x", None]}),
    ),
    "lists of types": (
        closed_object(a={"type": ["string", "null"]}),
        closed_object(a={"anyOf": [TEXT, {"type": "null"}]}),
    ),
    "alternatives": (
        closed_object(a={"oneOf": [TEXT, {"type": "integer"}]}),
        closed_object(a={"anyOf": [TEXT, {"type": "integer"}]}),
    ),
    "references": (
        closed_object(a={"$ref": "#/$defs/A~1B"}) | {"$defs": {"A/B": {"type": "array", "items": TEXT, "minItems": 3}}},
        closed_object(a={"type": "array", "items": TEXT}),
    ),
    "a reference to nowhere": (
        closed_object(a={"$ref": "#/$defs/no"}, b={"$ref": "http://x/y"}),
        closed_object(a=ANY_VALUE, b=ANY_VALUE),
    ),
    "parts that all hold": (
        {"allOf": [closed_object(a=TEXT), {"$ref": "#/$defs/B"}], "$defs": {"B": closed_object(b=TEXT)}},
        closed_object(a=TEXT, b=TEXT),
    ),
    "whatever an object holds": ({"type": "object"}, {"type": "object"}),
    "no schema": ({}, {"type": "object"}),
    "no arguments": (closed_object(), closed_object()),
    "anything": (
        closed_object(a={}, b=True, c={"type": "array"}),
        closed_object(a=ANY_VALUE, b=ANY_VALUE, c={"type": "array", "items": ANY_VALUE}),
    ),
    "unsound": (
        closed_object(a={"type": 5, "enum": "x"}, b={"properties": [], "type": "object"}),
        closed_object(a=ANY_VALUE, b={"type": "object"}),
    ),
}


@pytest.mark.parametrize("case", NARROWED_SCHEMAS)
def test_a_schema_is_narrowed(case: str) -> None:
    schema, narrowed = NARROWED_SCHEMAS[case]
    assert strict_schema(schema) == narrowed


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (closed_object(a=TEXT, b={"type": "array", "items": TEXT}, c={"anyOf": [TEXT, closed_object()]}), True),
        (closed_object(a=TEXT) | {"required": []}, False),
        ({"type": "object"}, False),
        (closed_object(a={"type": "array", "items": {"type": "object"}}), False),
        (closed_object(a={"anyOf": [TEXT, ANY_VALUE]}), False),
    ],
)
def test_a_schema_is_strict_if_every_object_is_closed_and_required(schema: dict[str, Any], strict: bool) -> None:
    assert is_strict(strict_schema(schema)) is strict
    assert response_format(request(tool(schema)))["json_schema"]["strict"] is strict


UNBOUNDED_SCHEMAS: dict[str, dict[str, Any]] = {
    "itself": closed_object(a={"$ref": "#"}),
    "a ring": closed_object(a={"$ref": "#/$defs/Node"}) | {"$defs": {"Node": NODE}},
    "a fan": closed_object(a={"$ref": "#/$defs/F"})
    | {"$defs": {"F": closed_object(**{f"p{n}": {"$ref": "#/$defs/F"} for n in range(50)})}},
    "alternatives": {"anyOf": [{"$ref": "#"}] * 50},
    "all of itself": {"allOf": [{"$ref": "#"}] * 50},
    "deep": json.loads('{"items":' * 200 + "{}" + "}" * 200),
    "wide": closed_object(**{f"p{n}": TEXT for n in range(5000)}),
}


@pytest.mark.parametrize("case", UNBOUNDED_SCHEMAS)
def test_the_prompt_text_of_a_tool_is_bounded(case: str) -> None:
    """The size is bounded, and so is the work to compute it."""
    plain = request(tool(closed_object(**{f"p{n}": TEXT for n in range(100)})))
    hostile = request(tool(UNBOUNDED_SCHEMAS[case]))
    assert len(json.dumps(response_format(hostile))) < 50_000
    assert len(json_request(hostile).messages[0]["content"]) < 10_000

    def describe(model_request: Request) -> None:
        response_format(model_request)
        json_request(model_request)

    assert_costs_at_most(10, lambda: describe(hostile), lambda: describe(plain))


ANY_SCHEMAS = st.recursive(
    st.sampled_from(
        [TEXT, {}, True, {"type": ["integer", "null"]}, {"const": 1}, {"enum": ["a", 2]}, {"$ref": "#"}, 5]
    ),
    lambda inner: (
        st.dictionaries(st.text(max_size=5), inner, max_size=3).map(
            lambda found: {"type": "object", "properties": found}
        )
        | st.lists(inner, min_size=1, max_size=3).map(lambda found: {"anyOf": found})
        | st.lists(inner, min_size=1, max_size=3).map(lambda found: {"allOf": found})
        | inner.map(lambda found: {"type": "array", "items": found, "minItems": 2})
    ),
    max_leaves=12,
)


@given(schema=ANY_SCHEMAS)
def test_every_reply_format_is_a_valid_schema_of_few_keywords(schema: Any) -> None:
    model_request = request(tool({"type": "object", "properties": {"x": schema}}))
    reply_format = response_format(model_request)["json_schema"]["schema"]
    assert schema_error(reply_format) == ""
    assert "$ref" not in json.dumps(reply_format)
    assert set(_keywords(reply_format)) <= KEYWORDS | {"minItems", "maxItems"}
    assert json_request(model_request).messages[0]["role"] == "system"


def _keywords(schema: dict[str, Any]) -> list[str]:
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    inner += [schema["items"]] if "items" in schema else []
    return [*schema, *(word for one in inner for word in _keywords(one))]


def message(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


@given(
    roles=st.lists(st.sampled_from(["system", "user", "assistant", "tool"]), max_size=12),
    instruction=st.sampled_from(["", "do"]),
)
def test_every_conversation_becomes_plain_messages(roles: list[str], instruction: str) -> None:
    turns = plain_messages(tuple(message(role, "x", tool_call_id="none") for role in roles), instruction)
    roles_of_turns = [turn["role"] for turn in turns if turn["role"] != "system"]
    assert roles_of_turns == [("user", "assistant")[n % 2] for n in range(len(roles_of_turns))]
    assert [turn["role"] for turn in turns[1:] if turn["role"] == "system"] == []
    assert [turn for turn in turns if not turn["content"]] == []


def test_images_stay_in_plain_messages() -> None:
    """Images stay also if their message is merged with another."""
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    parts = [{"type": "text", "text": "look"}, picture]
    [turn] = plain_messages((message("user", "one"), message("user", parts)))
    assert turn["content"] == [{"type": "text", "text": "one"}, *parts]
    [turn] = plain_messages((message("user", parts),))
    assert turn["content"] == parts


def test_earlier_replies_have_the_requested_format() -> None:
    """With the names of the tools that returned the results."""
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate([("add", '{"a":"ü"}'), ("go", "")])
    ]
    messages = (
        message("user", "x"),
        message("assistant", "", tool_calls=calls),
        message("tool", "1", tool_call_id="c0"),
        message("tool", "2", tool_call_id="c1"),
    )
    _, _, said, results = plain_messages(messages, "do")
    calls_made = [{"tool": "add", "args": {"a": "ü"}}, {"tool": "go", "args": {}}]
    assert json.loads(said["content"]) == {"text": "", "calls": calls_made}
    assert results["content"] == "[add answered] 1\n\n[go answered] 2"
    assert [turn["content"] for turn in plain_messages(messages)] == [
        'x\n\n[add with {"a":"ü"} answered] 1\n\n[go with {} answered] 2'
    ]
    again = parse_reply(said["content"], request(tool({}, "add"), tool({})), cut_off=False)
    assert [(call.name, json.loads(call.arguments)) for call in again.calls] == [("add", {"a": "ü"}), ("go", {})]


@given(said=st.text() | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps))
def test_any_reply_is_parsed_or_reported_as_a_mistake(said: str) -> None:
    answer = parse_reply(said, request(tool()), cut_off=False)
    assert answer.mistake or '"calls"' in said or '"text"' in said


@pytest.mark.parametrize("said", ["{" * 100_000, '{"calls": [' * 9000, '{"a":1}' * 14_000, '"{' * 50_000])
def test_four_times_the_reply_is_parsed_in_four_times_the_time(said: str) -> None:
    quarter = said[: len(said) // 4]

    def parse(reply: str) -> None:
        assert parse_reply(reply, request(tool()), cut_off=False).mistake

    assert_costs_at_most(8, lambda: parse(said), lambda: parse(quarter))


def test_lone_surrogates_are_replaced() -> None:
    answer = parse_reply('{"text": "\\ud83d", "calls": []}', request(tool()), cut_off=False)
    assert answer.text.encode()


def test_a_reply_may_contain_the_maximum_number_of_calls() -> None:
    calls = [{"tool": "go", "args": {"n": n}} for n in range(MAX_CALLS)]
    answer = parse_reply(json.dumps({"calls": calls}), request(tool({})), cut_off=False)
    assert len(answer.calls) == MAX_CALLS


FIVE_THOUSAND_NAMES = [f"n{n}" for n in range(5000)]


@pytest.mark.parametrize(
    "schema",
    [
        {
            "$defs": {
                "a": {"required": FIVE_THOUSAND_NAMES, "properties": {"n1": {}}},
                "b": {"allOf": [{"$ref": "#/$defs/a"}] * 300},
            },
            "anyOf": [{"$ref": "#/$defs/b"}] * 290,
        },
        {"$defs": {"a": {"enum": FIVE_THOUSAND_NAMES}}, "anyOf": [{"$ref": "#/$defs/a"}] * 290},
        {"$defs": {"a": {"enum": ["n" * 30_000]}}, "properties": {f"k{n}": {"$ref": "#/$defs/a"} for n in range(290)}},
        {"type": ["null"] * 5000} | {f"x-{n}": 1 for n in range(5000)},
    ],
)
def test_references_do_not_multiply_a_schema(schema: dict[str, Any]) -> None:
    tracemalloc.start()
    try:
        narrowed = json.dumps(strict_schema(schema))
        assert tracemalloc.get_traced_memory()[1] < 32 * 1024 * 1024
    finally:
        tracemalloc.stop()
    assert len(narrowed) < 1024 * 1024
    assert len(describe_tools((tool(schema),))) < 64 * 1024
