"""The scripted model: values for schemas, ways through graphs, and replies."""

import json
import random
from typing import Any

import jsonschema
import pytest

from roboco import Team, parse_team
from roboco.domain.decision.router import holds
from roboco.domain.history.part import TextPart
from roboco.domain.history.step import TaskStep
from roboco.domain.team.collaboration import Graph
from roboco.lab.drill.replies import ScriptedModel
from roboco.lab.drill.route_plan import RoutePlan
from roboco.lab.drill.schema_sample import sample
from roboco.lab.servers.chat_protocol import ChatReply, ChatRequest

SCHEMAS: list[dict[str, Any]] = [
    {"type": "string", "minLength": 12, "maxLength": 12},
    {"type": "string", "enum": ["a", "b"]},
    {"type": "integer", "minimum": 5, "maximum": 7},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 10},
    {"type": "integer", "multipleOf": 4, "minimum": 5},
    {"type": "number", "maximum": -3},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 3},
    {"anyOf": [{"type": "null"}, {"type": "string"}]},
    {"const": {"a": 1}},
    {"type": ["string", "null"], "format": "email"},
    {
        "type": "object",
        "properties": {"who": {"$ref": "#/$defs/Who"}, "note": {"type": "string"}},
        "required": ["who"],
        "$defs": {"Who": {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}},
    },
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_a_sample_fits_its_schema(schema: dict[str, Any]) -> None:
    jsonschema.validate(sample(schema, random.Random(1)), schema)


@pytest.mark.parametrize(
    "schema",
    [None, True, {}, {"$ref": "#/none"}, {"$ref": "#"}, {"type": "array", "minItems": 10**9}, {"minLength": 10**9}],
    ids=str,
)
def test_a_sample_of_a_strange_schema_is_small(schema: Any) -> None:
    assert len(json.dumps(sample(schema, random.Random(1)))) < 20_000


def graph_team(graph: dict[str, Any], names: str = "abc") -> Team:
    agents = [{"name": name, "prompt": name} for name in names if name in graph]
    return parse_team(
        {
            "name": "team",
            "agents": agents,
            "collaboration_model": {"type": "graph", "initial_agent": names[0], "routing_graph": graph},
        }
    )


def walk(team: Team) -> list[str]:
    """Follow the texts of the plan through the graph, as the router does."""
    plan, graph = RoutePlan(team), team.collaboration_model
    assert isinstance(graph, Graph)
    at, visits, way = team.agents[0].name, dict.fromkeys("abc", 0), list[str]()
    taken: dict[tuple[str, int], int] = {}
    while team.has_agent(at) and len(way) < 30:
        way.append(at)
        run = (TaskStep(agent_name=at, parts=(TextPart(text=plan.text(at, visits[at])),)),)
        visits[at] += 1
        for number, edge in enumerate(graph.routing_graph[at]):
            times = taken.get((at, number), 0)
            if (edge.max_times is None or times < edge.max_times) and (edge.when is None or holds(edge.when, run)):
                taken[at, number] = times + 1
                at = edge.to
                break
    return [*way, at]


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"a": ["b"], "b": ["END"]}, "a b END"),
        ({"a": ["b"], "b": [{"to": "END", "when": {"contains": "GO"}}, {"to": "a"}]}, "a b END"),
        ({"a": [{"to": "END", "when": {"matches": "(?i)^.*(done|ready)$"}}, "a"]}, "a END"),
        ({"a": [{"to": "b", "when": {"contains": "B"}}, "END"], "b": ["c"], "c": ["END"]}, "a b c END"),
        ({"a": [{"to": "a", "max_times": 2}, "END"]}, "a a a END"),
        ({"a": ["b"], "b": ["USER"]}, "a b USER"),
        ({"a": [{"to": "b", "when": {"not": {"contains": "STOP"}}}, "END"], "b": ["a"]}, "a b a END"),
        ({"a": [{"to": "END", "when": {"all": [{"contains": "X"}, {"contains": "Y"}]}}, "a"]}, "a END"),
    ],
    ids=str,
)
def test_a_plan_visits_all_agents_and_reaches_the_end(graph: dict[str, Any], expected: str) -> None:
    assert " ".join(walk(graph_team(graph))) == expected


TEAM = parse_team({"name": "team", "agents": [{"name": "writer", "prompt": "writer"}]})
SEARCH = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}


def ask(messages: list[dict[str, Any]], **body: Any) -> ChatReply:
    request = ChatRequest("POST", "/team/writer/v1/chat/completions", {}, {"messages": messages, **body})
    reply = ScriptedModel(TEAM, seed=1)(request)
    assert reply == ScriptedModel(TEAM, seed=1)(request)
    return reply


def native(*names: str) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": name, "parameters": SEARCH}} for name in names]


USER = {"role": "user", "content": "Hello."}


def test_the_model_calls_each_tool_once() -> None:
    tools = native("search", "handoff")
    first = ask([USER], tools=tools)
    assert [name for name, _ in first.tool_calls] == ["search"]
    jsonschema.validate(first.tool_calls[0][1], SEARCH)
    called = {"role": "assistant", "tool_calls": [{"function": {"name": "search"}}]}
    second = ask([USER, called, {"role": "tool", "tool_call_id": "1", "content": "x"}], tools=tools)
    assert [name for name, _ in second.tool_calls] == ["handoff"]
