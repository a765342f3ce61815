"""@tool: Python functions as tools, their schema, and their calls with a model's arguments."""

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from roboco.adapters.tools.function_tool import describe_function, is_tool, tool
from roboco.errors import UsageError
from roboco.ports.tools import ToolContext

CONTEXT = ToolContext("t1", "one", "tc_1", "t1/tc_1", 1)


class Place(BaseModel):
    """A place."""

    city: str
    zip_code: int = 0


class Colour(Enum):
    """A colour."""

    RED = "red"


def call(function: Callable[..., Any], **args: Any) -> Any:
    return describe_function(function).call(args, CONTEXT)


def test_a_marked_function_stays_what_it_was() -> None:
    @tool
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    def other() -> None:
        """Nothing."""

    assert add(1) == 3
    assert is_tool(add)
    assert not is_tool(other)
    assert not is_tool("add")
    assert not is_tool(None)


def test_the_schema_holds_types_defaults_and_descriptions() -> None:
    def find(
        words: Annotated[list[str], Field(description="what to look for", min_length=1)],
        context: ToolContext,
        where: Place | None = None,
        order: Literal["old", "new"] = "new",
        limit: Annotated[int, Field(ge=1, le=9)] = 5,
    ) -> None:
        """Find things.

        Slowly.
        """

    schema = describe_function(find).schema("search")
    assert schema["type"] == "function"
    told = schema["function"]
    assert (told["name"], told["description"]) == ("search", "Find things.\n\nSlowly.")
    parameters = told["parameters"]
    assert parameters["type"] == "object"
    assert parameters["required"] == ["words"]
    assert parameters["additionalProperties"] is False
    assert set(parameters["properties"]) == {"words", "where", "order", "limit"}
    assert parameters["properties"]["words"]["description"] == "what to look for"
    assert parameters["properties"]["order"]["enum"] == ["old", "new"]
    assert parameters["properties"]["limit"] | {"title": ""} == {
        "default": 5,
        "maximum": 9,
        "minimum": 1,
        "title": "",
        "type": "integer",
    }
    assert describe_function(find).schema("search", "other words")["function"]["description"] == "other words"


def test_a_tool_without_parameters() -> None:
    def now() -> str:
        """The time."""
        return "noon"

    assert describe_function(now).schema("now")["function"]["parameters"]["properties"] == {}
    assert call(now) == "noon"


def no_hint(a) -> None:  # type: ignore[no-untyped-def]
    """Nothing."""


def many(*args: int) -> None:
    """Nothing."""


def keywords(**named: int) -> None:
    """Nothing."""


def by_place(a: int, /) -> None:
    """Nothing."""


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (no_hint, "tool no_hint: parameter 'a' has no type hint"),
        (many, "tool many: parameter 'args' cannot be passed by name"),
        (keywords, "tool keywords: parameter 'named' cannot be passed by name"),
        (by_place, "tool by_place: parameter 'a' cannot be passed by name"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_when_it_is_marked(function: Callable[..., Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        tool(function)


def test_arguments_become_what_the_hints_say() -> None:
    def show(place: Place, colour: Colour, count: int = 3, *, flag: bool = False) -> list[object]:
        """Show."""
        return [type(place).__name__, place.zip_code, colour.name, count, flag]

    assert call(show, place={"city": "x", "zip_code": "8001"}, colour="red") == ["Place", 8001, "RED", 3, False]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({}, "a: Field required"),
        ({"a": "x"}, "a: .* (found 'x')"),
        ({"a": 1, "c": 2}, "c: Extra inputs are not permitted"),
        ({"a": None}, "a: .* (found None)"),
        ({"a": 1, "b": "x", "c": 1}, "b: .*; c: "),
    ],
)
def test_arguments_that_do_not_fit_are_told(args: dict[str, Any], told: str) -> None:
    def add(a: int, b: int = 2) -> int:
        """Add."""
        raise AssertionError("must not run")

    with pytest.raises(UsageError, match=told.replace("(", r"\(").replace(")", r"\)")) as raised:
        call(add, **args)
    assert str(raised.value).endswith("; parameters are: a, b")


def test_the_context_is_handed_in_and_not_shown() -> None:
    def who(context: ToolContext) -> str:
        """Who."""
        return context.idempotency_key

    assert call(who) == "t1/tc_1"
    with pytest.raises(UsageError, match="parameters are: none"):
        call(who, context={"task_id": "other"})


@pytest.mark.parametrize(
    "name", ["schema", "json", "copy", "validate", "model_config", "model_dump", "model_name", "_a"]
)
def test_a_parameter_may_be_called_whatever_python_allows(name: str) -> None:
    """Or is refused when the function is marked; there is no warning, and no other error."""
    made: dict[str, Any] = {}
    exec(f"def show({name}: int) -> int:\n    'Show.'\n    return {name} + 1", made)
    try:
        described = describe_function(made["show"])
    except UsageError:
        return
    assert list(described.schema("show")["function"]["parameters"]["properties"]) == [name]
    assert described.call({name: 1}, CONTEXT) == 2


def test_an_async_function_is_run_to_its_end() -> None:
    async def later(a: int) -> int:
        """Later."""
        await asyncio.sleep(0)
        return a + 1

    assert call(later, a=1) == 2


def test_a_functions_own_error_goes_through() -> None:
    def fails() -> None:
        """Fail."""
        raise ZeroDivisionError("no")

    with pytest.raises(ZeroDivisionError):
        call(fails)


def test_error_for_a_result_that_is_no_json_names_the_tool_the_type_and_the_remedy() -> None:
    def look_up() -> dict[str, object]:
        """Look it up."""
        return {"rows": [object()]}

    with pytest.raises(TypeError) as failed:
        call(look_up)
    told = str(failed.value)
    assert told.startswith(
        "tool 'tests.unit.adapters.mcp.test_tool:look_up' returned a value of type dict that is not JSON: "
    )
    assert "it holds a value of type object; return texts, " in told
