"""Tools that the coordinator answers or a client runs: goals, client tools, hand-offs and sub-tasks.

OpenAI's server refuses a whole request for an object without `properties`, for an array without `items`, and for
`anyOf` and the like at the root. So model servers receive a schema that they accept. The server of the tool, and the
worker's own check, still use the listed schema. A check has accepted each schema before, but those of
functions, which pydantic makes.
"""

from typing import Any

from roboco.domain.builtin_tools import DELEGATE, HANDOFF
from roboco.domain.history.task_state import TaskState
from roboco.domain.team.team import Agent, Team

_MAP_KEYWORDS = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
_LIST_KEYWORDS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SINGLE_KEYWORDS = frozenset(
    {"items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"}
)
_NOT_AT_THE_ROOT = frozenset({"anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else", "$ref"})


def offered_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of an object that accepts all values that the schema accepts."""
    schema = (
        schema | {"allOf": [*(schema.get("allOf") or ()), {"$ref": schema["$ref"]}]} if "$ref" in schema else schema
    )
    kept = {keyword: value for keyword, value in schema.items() if keyword not in _NOT_AT_THE_ROOT}
    if len(kept) < len(schema):  # what they require may be the only mention of a parameter
        kept = {"properties": _parameters(schema)} | {name: one for name, one in kept.items() if name != "properties"}
    complete: dict[str, Any] = _complete(kept)
    return {"type": "object", "properties": {}} | complete | {"type": "object"}


def _parameters(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of the schema, and of the alternatives at its root."""
    listed = [_resolved(one, schema) for keyword in ("anyOf", "oneOf", "allOf") for one in schema.get(keyword) or ()]
    found = [one["properties"] for one in listed if isinstance(one, dict) and isinstance(one.get("properties"), dict)]
    names = {name for one in found for name in one}
    own = schema.get("properties") or {}
    same = {name: [one[name] for one in found if name in one] for name in sorted(names - own.keys())}
    return {name: ones[0] if len(ones) == 1 else {"anyOf": ones} for name, ones in same.items()} | own


def _resolved(schema: Any, root: dict[str, Any]) -> Any:
    """Return the definition that a reference leads to, or the schema itself."""
    match schema:
        case {"$ref": str(ref)}:
            _, place, name = ([*ref.split("/"), "", "", ""])[:3]
            return (root.get(place) or {}).get(name) if place in ("$defs", "definitions") else schema
        case _:
            return schema


def _complete(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return {"not": {}} if schema is False else {}
    complete = {
        keyword: _complete_value(keyword, value)
        for keyword, value in schema.items()
        if not (keyword == "enum" and value == [])
    }
    kinds = complete.get("type")
    listed = kinds if isinstance(kinds, list) else [kinds]
    if "object" in listed:
        complete.setdefault("properties", {})
    if "array" in listed:
        complete.setdefault("items", {})
    return complete


def _complete_value(keyword: str, value: Any) -> Any:
    if keyword in _MAP_KEYWORDS and isinstance(value, dict):
        return {name: _complete(one) for name, one in value.items()}
    if keyword in _LIST_KEYWORDS and isinstance(value, list):
        return [_complete(one) for one in value]
    if keyword == "additionalProperties" and isinstance(value, bool):
        return value
    return _complete(value) if keyword in _SINGLE_KEYWORDS else value


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
