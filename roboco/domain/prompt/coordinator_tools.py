"""Tools that the coordinator answers or a client runs: goals, client tools, hand-offs and sub-tasks."""

from typing import Any

from roboco.domain.builtin_tools import DELEGATE, HANDOFF
from roboco.domain.history.state import TaskState
from roboco.domain.prompt.offered_schema import offered_schema
from roboco.domain.team.team import Agent, Team

ToolSchema = dict[str, Any]


def coordinator_tools(team: Team, agent: Agent, state: TaskState, has_form: bool = True) -> tuple[ToolSchema, ...]:
    """Return these tools of the agent in the format of the chat completions protocol.

    `has_form` is True if its answer has the form that the message demands: it alone makes a call that is required.
    """
    of_client = has_form or state.answer_form.get("calls") != "required"
    tools = [
        function_schema(tool["name"], tool["description"], tool["input_schema"])
        for tool in (state.client_tools_of(agent.name).values() if of_client else ())
    ]
    tools += [
        function_schema(goal.tool_name, f"Achieve the goal: {goal.description}", goal.outcome)
        for goal in state.goals
        if agent.achieves(goal.name, team)
    ]
    if agent.handoffs:
        tools.append(_handoff(team, agent))
    if agent.delegates:
        tools.append(_delegate(team, agent))
    return tuple(tools)


def schema_of(team: Team, state: TaskState, name: str) -> ToolSchema | None:
    """Return the JSON Schema of the arguments of a goal's or client's tool or a Celery task, or None for others."""
    if (task := team.task_tool(name)) is not None:
        return task.parameters
    goals = {goal.tool_name: goal.outcome for goal in state.goals}
    tool = state.client_tools.get(name)
    return goals.get(name) if tool is None else tool["input_schema"]


def _handoff(team: Team, agent: Agent) -> ToolSchema:
    possible = "; ".join(f"{name}: {team.agent(name).description or 'no description'}" for name in agent.handoffs)
    arguments: dict[str, ToolSchema] = {
        "destination_agent": {"type": "string", "enum": list(agent.handoffs)},
        "reason": {"type": "string"},
    }
    return function_schema(HANDOFF, f"Hand the work over to another agent. {possible}", _object_schema(arguments))


def _delegate(team: Team, agent: Agent) -> ToolSchema:
    possible = "; ".join(f"{name}: {team.sub_team(name).description or 'no description'}" for name in agent.delegates)
    arguments: dict[str, ToolSchema] = {
        "team": {"type": "string", "enum": list(agent.delegates)},
        "prompt": {"type": "string", "description": "all information that the team needs; it sees nothing else"},
    }
    return function_schema(
        DELEGATE, f"Delegate work to another team and wait for its result. {possible}", _object_schema(arguments)
    )


def _object_schema(arguments: dict[str, ToolSchema]) -> ToolSchema:
    return {"type": "object", "properties": arguments, "required": list(arguments), "additionalProperties": False}


def function_schema(name: str, description: str, parameters: ToolSchema) -> ToolSchema:
    """Return a tool in the format of the chat completions protocol.

    `parameters` is the JSON Schema of its arguments, in any form.
    """
    function = {"name": name, "description": description, "parameters": offered_schema(parameters)}
    return {"type": "function", "function": function}
