"""ListedTool: which differences between two listings of a tool a person has to approve."""

from typing import Any

import pytest

from roboco.domain.team.tool_listing import ListedTool


def tool(description: str = "Find.", **schema: Any) -> ListedTool:
    return ListedTool(description=description, input_schema={"type": "object", **schema}, effect="pure")


STRING: dict[str, Any] = {"type": ["string", "null"], "enum": ["a", "b", None], "description": "One\n of these."}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (tool("Find  a\n tea."), tool("Find a tea. ")),
        (tool(properties={"x": STRING}), tool(properties={"x": STRING | {"enum": [None, "b", "a"]}})),
        (tool(properties={"x": STRING}), tool(properties={"x": STRING | {"description": "One of these."}})),
        (tool(anyOf=[{"minProperties": 1}, STRING]), tool(anyOf=[STRING, {"minProperties": 1}])),
        (tool(dependentRequired={"a": ["b", "c"]}), tool(dependentRequired={"a": ["c", "b"]})),
        (tool(properties={"required": STRING, "enum": STRING}), tool(properties={"enum": STRING, "required": STRING})),
    ],
)
def test_order_and_white_space_are_no_change(one: ListedTool, other: ListedTool) -> None:
    assert one.is_same(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (tool(required=["a"]), tool(required=["a", "b"])),
        (tool(properties={"x": {"enum": [1]}}), tool(properties={"x": {"enum": ["1"]}})),
        (tool(properties={"x": {"default": ["a", "b"]}}), tool(properties={"x": {"default": ["b", "a"]}})),
        (tool(properties={"x": {"prefixItems": [{}, STRING]}}), tool(properties={"x": {"prefixItems": [STRING, {}]}})),
        (tool(properties={"x": {"const": "a  b"}}), tool(properties={"x": {"const": "a b"}})),
    ],
)
def test_any_other_difference_is_a_change(one: ListedTool, other: ListedTool) -> None:
    assert not one.is_same(other)
