"""Tools that the coordinator or the client answers, as an agent sees them."""

from typing import Any

import pytest

from roboco.domain.history.goal import GoalState
from roboco.domain.history.state import TaskState
from roboco.domain.prompt.coordinator_tools import coordinator_tools, function_schema, schema_of
from roboco.domain.team.validation import validate_team
from tests.support.servers.dialects.openai_schemas import check_tool_schemas

INNER = {"name": "helpers", "description": "look things up", "agents": [{"name": "h", "prompt": "h"}]}
TEAM = validate_team(
    {
        "name": "desk",
        "agents": [
            {"name": "one", "prompt": "1", "handoffs": ["two"], "delegates": ["helpers"]},
            {"name": "two", "prompt": "2", "description": "closes"},
        ],
        "teams": {"helpers": INNER},
    }
)
ARGUMENTS = {"type": "object", "properties": {"n": {"type": "integer"}}}
STATE = TaskState(
    goals=(GoalState(name="answer", description="the number", outcome=ARGUMENTS),),
    client_tools={"client_ask": {"name": "client_ask", "description": "asks", "input_schema": ARGUMENTS}},
)


def test_an_agent_gets_the_coordinator_tools_that_it_may_call() -> None:
    tools = {one["function"]["name"]: one["function"] for one in coordinator_tools(TEAM, TEAM.agent("one"), STATE)}
    assert set(tools) == {"client_ask", "achieve_answer", "handoff", "delegate"}
    assert "two: closes" in tools["handoff"]["description"]
    assert tools["handoff"]["parameters"]["properties"]["destination_agent"]["enum"] == ["two"]
    assert "helpers: look things up" in tools["delegate"]["description"]
    assert tools["delegate"]["parameters"]["properties"]["team"]["enum"] == ["helpers"]
    assert tools["achieve_answer"]["parameters"] == tools["client_ask"]["parameters"] == ARGUMENTS
    assert coordinator_tools(TEAM, TEAM.agent("two"), TaskState()) == ()


@pytest.mark.parametrize("declared", [{}, {"type": "object"}, {"type": "object", "required": []}])
def test_a_tool_without_arguments_has_a_schema_that_openai_accepts(declared: dict[str, Any]) -> None:
    tool = function_schema("client_show", "shows it", declared)
    check_tool_schemas([tool])
    assert tool["function"]["parameters"] == {"type": "object", "properties": {}} | declared


def test_goals_and_client_tools_have_the_declared_schema() -> None:
    assert schema_of(TEAM, STATE, "achieve_answer") == schema_of(TEAM, STATE, "client_ask") == ARGUMENTS
    assert schema_of(TEAM, STATE, "handoff") is None
