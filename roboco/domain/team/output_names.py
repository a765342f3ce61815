"""output_names: compare the fields of outputs that a team names with the JSON Schemas of these outputs.

A condition `output`, the list of a map, and the `state` of an agent name fields. A type of Python is not compared: only
a worker imports it. The task's state is not compared either: any tool or message may set any name.
"""

from collections.abc import Iterator
from typing import Any, Final

from roboco.domain.team.collaboration import Graph
from roboco.domain.team.condition import Condition
from roboco.domain.team.team import Agent, Team

_MORE: Final = frozenset({"additionalProperties", "$ref", "allOf", "anyOf", "oneOf", "if"})
"""Keywords that may declare further fields."""
_LIST: Final = {"type": "array"}


def absent_names(team: Team, *, certain: bool, path: str = "") -> Iterator[str]:
    """Yield a text for each name that no output can have; else, for each other one that its schema does not declare."""
    agents = {agent.name: agent for agent in team.agents}
    for index, agent in enumerate(team.agents):
        for name in agent.state:
            yield from _found(f"{path}agents[{index}].state", agent, [name], certain)
        root, *names = agent.map.over.split(".") if agent.map is not None else [""]
        if root == "output":
            yield from _found(f"{path}agents[{index}].map.over", agents[names[0]], names[1:], certain)
    graph = team.collaboration_model.routing_graph if isinstance(team.collaboration_model, Graph) else {}
    for node, edges in graph.items():
        for index, edge in enumerate(edges):
            for at, key in _keys(f"{path}collaboration_model.routing_graph.{node}[{index}].when", edge.when):
                yield from _found(at, agents[node], key.split("."), certain)
    for name, inner in team.teams.items():
        yield from absent_names(inner, certain=certain, path=f"{path}teams.{name}.")


def _keys(at: str, condition: Condition | None) -> Iterator[tuple[str, str]]:
    """Yield the dotted keys of outputs in a condition, each with its place. An absent one equals null."""
    if condition is None:
        return
    yield from ((f"{at}.output", key) for key, value in (condition.output or {}).items() if value is not None)
    yield from _keys(f"{at}.not", condition.not_)
    for name, nested in (("any", condition.any_), ("all", condition.all_)):
        for index, inner in enumerate(nested or ()):
            yield from _keys(f"{at}.{name}[{index}]", inner)


def _found(at: str, agent: Agent, names: list[str], certain: bool) -> Iterator[str]:
    if agent.map is None and agent.output is None:
        if certain and agent.pydantic_ai is None:
            yield f"{at}: agent {agent.name!r} has no output"
        return
    if agent.validator is not None or isinstance(agent.output, str):
        return  # the check may return another value
    schema: Any = _LIST if agent.map is not None else agent.output
    for name in names:
        declared = schema.get("properties", {})
        kind = schema.get("type", "object")
        is_object = "object" in ([kind] if isinstance(kind, str) else kind)
        if not is_object or name not in declared:
            closed = not is_object or schema.get("additionalProperties") is False
            is_certain = closed and agent.code is None  # a person may give the result of a function
            is_likely = closed or (declared and not _MORE & schema.keys())
            if is_certain if certain else is_likely and not is_certain:
                possible = f"declared are {', '.join(map(repr, declared))}" if declared else "it declares no fields"
                yield f"{at}: the output of agent {agent.name!r} has no {name!r} here, {possible}"
            return
        schema = declared[name]
        if not isinstance(schema, dict):
            return
