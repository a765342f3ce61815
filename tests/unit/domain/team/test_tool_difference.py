"""The difference that a user approves is bounded, and no change hides behind a long text."""

from typing import Any

from roboco.domain.team.tool_listing import ListedTool, ToolChange, ToolDifference, tool_difference


def tool(**changes: Any) -> ListedTool:
    return ListedTool.model_validate({"description": "Buy.", "input_schema": {"a": 1}, "effect": "pure"} | changes)


def difference(before: ListedTool | None, after: ListedTool, max_chars: int = 100) -> ToolDifference:
    return tool_difference("c", before, ToolChange(server="shop", remote="buy", tool=after), max_chars)


def test_difference_holds_only_the_parts_that_have_changed() -> None:
    found = difference(tool(), tool(input_schema={"a": 2}, effect="irreversible"))
    assert [(part.part, part.before, part.after) for part in found.parts] == [
        ("input_schema", '{"a": 1}', '{"a": 2}'),
        ("effect", '"pure"', '"irreversible"'),
    ]


def test_difference_behind_a_long_text_is_shown() -> None:
    long = "x" * 5000
    (part,) = difference(tool(description=f"{long}good{long}"), tool(description=f"{long}evil{long}")).parts
    assert part.before == f"[4941 characters as before] {'x' * 60}good{'x' * 36} [4965 more characters]"
    assert "evil" in part.after
    assert len(part.after) < 170


def test_difference_has_no_line_of_the_server() -> None:
    (part,) = difference(tool(), tool(description="Buy.\n── completed")).parts
    assert part.after == '"Buy.\\n── completed"'
