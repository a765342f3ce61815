"""@tool: Python functions as tools, their schema, and calls with a model's arguments."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from roboco.errors import UsageError
from roboco.ports.tools import ToolContext
from roboco.tools.function_tool import describe_function, tool

CONTEXT = ToolContext("t1", "one", "tc_1", "t1/tc_1", 1)


class Place(BaseModel):
    """A place."""

    city: str
    zip_code: int = 0


def call(function: Callable[..., Any], **args: Any) -> Any:
    return describe_function(function).call(args, CONTEXT)


def test_the_schema_holds_types_defaults_and_descriptions() -> None:
    def find(
        words: Annotated[list[str], Field(description="the words to find", min_length=1)],
        context: ToolContext,
        where: Place | None = None,
        schema: Literal["old", "new"] = "new",
        limit: Annotated[int, Field(ge=1, le=9)] = 5,
    ) -> None:
        """Find things.

        Slowly.
        """

    schema = describe_function(find).schema("search")
    assert schema["type"] == "function"
    described = schema["function"]
    assert (described["name"], described["description"]) == ("search", "Find things.\n\nSlowly.")
    parameters = described["parameters"]
    assert parameters["type"] == "object"
    assert parameters["required"] == ["words"]
    assert parameters["additionalProperties"] is False
    assert set(parameters["properties"]) == {"words", "where", "schema", "limit"}
    assert parameters["properties"]["words"]["description"] == "the words to find"
    assert parameters["properties"]["schema"]["enum"] == ["old", "new"]
    assert parameters["properties"]["limit"] | {"title": ""} == {
        "default": 5,
        "maximum": 9,
        "minimum": 1,
        "title": "",
        "type": "integer",
    }
    assert describe_function(find).schema("search", "other words")["function"]["description"] == "other words"


def without_type_hint(a) -> None:  # type: ignore[no-untyped-def]
    """Nothing."""


def with_variable_arguments(*args: int) -> None:
    """Nothing."""


def with_variable_keywords(**named: int) -> None:
    """Nothing."""


def with_positional_only_parameter(a: int, /) -> None:
    """Nothing."""


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (without_type_hint, "tool without_type_hint: parameter 'a' has no type hint"),
        (with_variable_arguments, "tool with_variable_arguments: parameter 'args' cannot be passed by name"),
        (with_variable_keywords, "tool with_variable_keywords: parameter 'named' cannot be passed by name"),
        (with_positional_only_parameter, "tool with_positional_only_parameter: parameter 'a' cannot be passed by name"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_when_it_is_used(
    function: Callable[..., Any], expected: str
) -> None:
    with pytest.raises(UsageError, match=expected):
        describe_function(tool(function))


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({}, "a: Field required"),
        ({"a": "x"}, "a: .* (found 'x')"),
        ({"a": 1, "c": 2}, "c: Extra inputs are not permitted"),
        ({"a": None}, "a: .* (found None)"),
        ({"a": 1, "b": "x", "c": 1}, "b: .*; c: "),
    ],
)
def test_the_error_for_unfit_arguments_names_each_argument(args: dict[str, Any], expected: str) -> None:
    def add(a: int, b: int = 2) -> int:
        """Add."""
        raise AssertionError("must not run")

    with pytest.raises(UsageError, match=expected.replace("(", r"\(").replace(")", r"\)")) as raised:
        call(add, **args)
    assert str(raised.value).endswith("; parameters are: a, b")
