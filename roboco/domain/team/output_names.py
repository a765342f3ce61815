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


def absent_names(team: Team, path: str = "") -> Iterator[str]:
    """Yield a warning for each name that the schema of the output does not declare."""
    agents = {agent.name: agent for agent in team.agents}
    for index, agent in enumerate(team.agents):
        for name in agent.state:
            yield from _found(f"{path}agents[{index}].state", agent, [name])
        root, *names = agent.map.over.split(".") if agent.map is not None else [""]
        if root == "output":
            yield from _found(f"{path}agents[{index}].map.over", agents[names[0]], names[1:])
    graph = team.collaboration_model.routing_graph if isinstance(team.collaboration_model, Graph) else {}
    for node, edges in graph.items():
        for index, edge in enumerate(edges):
            for at, key in _keys(f"{path}collaboration_model.routing_graph.{node}[{index}].when", edge.when):
                yield from _found(at, agents[node], key.split("."))
    for name, inner in team.teams.items():
        yield from absent_names(inner, f"{path}teams.{name}.")


def _keys(at: str, condition: Condition | None) -> Iterator[tuple[str, str]]:
    """Yield the dotted keys of outputs in a condition, each with its place. An absent one equals null."""
    if condition is None:
        return
    yield from ((f"{at}.output", key) for key, value in (condition.output or {}).items() if value is not None)
    yield from _keys(f"{at}.not", condition.not_)
    for name, nested in (("any", condition.any_), ("all", condition.all_)):
        for index, inner in enumerate(nested or ()):
            yield from _keys(f"{at}.{name}[{index}]", inner)


def _found(at: str, agent: Agent, names: list[str]) -> Iterator[str]:
    if agent.output is None and agent.map is None and agent.pydantic_ai is None:
        yield f"{at}: agent {agent.name!r} has no output"
    if agent.validator is not None:
        return  # the check may return another value
    schema: Any = agent.output
    for name in names:
        declared = schema.get("properties", {}) if isinstance(schema, dict) else {}
        if name not in declared:
            if declared and (schema.get("additionalProperties") is False or not _MORE & schema.keys()):
                possible = ", ".join(map(repr, declared))
                yield f"{at}: the output of agent {agent.name!r} has no {name!r} here, declared are {possible}"
            return
        schema = declared[name]
