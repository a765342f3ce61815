"""Tables of the routers: the next agent for each history."""

from typing import Any

import pytest

from roboco.domain.decision.action import Route
from roboco.domain.decision.router import route
from roboco.domain.team.team import Team
from roboco.domain.team.validation import validate_team
from tests.unit.domain.steps import Line, call, history_of, result, routed, steps_of

GO: Line = ("user", "go")


def team(model: dict[str, Any], agents: str = "a b c") -> Team:
    members = [{"name": name, "prompt": "hi"} for name in agents.split()]
    return validate_team({"name": "desk", "agents": members, "collaboration_model": model})


def next_route(model: dict[str, Any], *lines: Line, agents: str = "a b c") -> Route:
    return route(team(model, agents), history_of(steps_of(*lines)))


@pytest.mark.parametrize(
    ("rounds", "agents", "turns", "to", "rule"),
    [
        (1, "a b c", "", "a", "next"),
        (1, "a b c", "a", "b", "next"),
        (1, "a b c", "a b c", "END", "rounds done"),
        (2, "a b", "a b", "a", "next round"),
        (2, "a b", "a b a b", "END", "rounds done"),
        (1, "a b c", "c", "END", "rounds done"),
    ],
)
def test_sequential_router_takes_agents_in_order(rounds: int, agents: str, turns: str, to: str, rule: str) -> None:
    lines: list[Line] = [(name, "text") for name in turns.split()]
    chosen = next_route({"type": "sequential", "rounds": rounds}, GO, *lines, agents=agents)
    assert (chosen.to, chosen.router, chosen.rule) == (to, "sequential", rule)
    assert chosen.candidates == tuple(agents.split())


def test_sequential_counts_no_turn_that_only_called_tools() -> None:
    calls: list[Line] = [("a", [call("tc_1")]), ("tool_executor", [result("tc_1")])]
    model = {"type": "sequential", "rounds": 2}
    assert next_route(model, GO, *calls, ("a", "done"), agents="a").rule == "next round"
    assert next_route(model, GO, *calls, ("a", "done"), *calls, ("a", "done"), agents="a").to == "END"


def test_sequential_continues_after_a_message() -> None:
    assert next_route({"type": "sequential"}, GO, ("a", "text"), ("user", "hurry")).to == "b"


@pytest.mark.parametrize(
    ("model", "lines", "to", "rule"),
    [
        ({"type": "manual"}, [GO], "a", "initial"),
        ({"type": "manual", "initial_agent": "b"}, [GO], "b", "initial"),
        ({"type": "manual"}, [GO, ("a", "x")], "USER", "user"),
        ({"type": "manual"}, [GO, ("a", "x"), ("user", "more")], "a", "answers"),
    ],
)
def test_manual_router_returns_to_the_user(model: dict[str, Any], lines: list[Line], to: str, rule: str) -> None:
    chosen = next_route(model, *lines)
    assert (chosen.to, chosen.rule) == (to, rule)


GRAPH: dict[str, Any] = {
    "type": "graph",
    "initial_agent": "b",
    "routing_graph": {
        "a": ["b"],
        "b": [
            {"to": "END", "when": {"contains": "APPROVED"}},
            {"to": "a", "max_times": 2, "when": {"contains": "again"}},
            {"to": "a", "when": {"tool_called": "memory_search"}},
        ],
        "c": [],
    },
}
TOOLED: list[Line] = [
    ("b", [call("t", "memory_search")]),
    ("tool_executor", [result("t")]),
    ("b", "again", routed("b", "results")),
]
BACK: Line = ("a", "x", routed("a", "b[1] -> a"))


@pytest.mark.parametrize(
    ("lines", "to", "rule"),
    [
        ([GO], "b", "initial"),
        ([GO, ("a", "x")], "b", "a[0] -> b"),
        ([GO, ("b", "APPROVED again")], "END", "b[0] -> END"),
        ([GO, ("b", "again")], "a", "b[1] -> a"),
        ([GO, ("b", "hm")], "USER", "b: no edge"),
        ([GO, BACK, BACK, ("b", "again")], "USER", "b: no edge"),
        (
            [GO, BACK, BACK, *TOOLED],
            "a",
            "b[2] -> a",
        ),
        ([GO, ("b", "hm"), ("user", "more")], "b", "answers"),
        ([("user", "go", {"agent": "a"}), ("a", "x")], "b", "a[0] -> b"),
    ],
)
def test_graph_router_takes_the_first_open_edge(lines: list[Line], to: str, rule: str) -> None:
    chosen = next_route(GRAPH, *lines)
    assert (chosen.to, chosen.rule) == (to, rule)


def test_an_agent_outside_the_graph_leads_to_the_user() -> None:
    chosen = next_route({"type": "graph", "routing_graph": {"a": ["b"]}}, GO, ("b", "x"))
    assert (chosen.to, chosen.rule, chosen.candidates) == ("USER", "b: no edge", ())


def test_a_route_names_its_reason_and_candidates() -> None:
    chosen = next_route(GRAPH, GO, ("b", "again"))
    assert chosen.record() == {
        "to": "a",
        "router": "graph",
        "rule": "b[1] -> a",
        "reason": 'b: contains "again"',
        "candidates": ["b[0] -> END", "b[1] -> a", "b[2] -> a"],
    }
    assert next_route(GRAPH, GO, ("a", "x")).reason == "after a always"


@pytest.mark.parametrize("model", [{"type": "sequential"}, {"type": "manual"}, GRAPH])
def test_an_agent_that_the_user_names_acts_with_every_router(model: dict[str, Any]) -> None:
    chosen = next_route(model, GO, ("a", "x"), ("user", "more", {"agent": "c"}))
    assert (chosen.to, chosen.rule, chosen.candidates) == ("c", "named", ("a", "b", "c"))


def test_route_refuses_a_custom_router() -> None:
    with pytest.raises(TypeError, match="must be imported"):
        next_route({"type": "custom", "router": "shop.routers:mine"}, GO)


def test_a_route_needs_only_the_newest_steps() -> None:
    lines: list[Line] = [GO, *[("a", "x"), ("b", "again", routed("b", "a[0] -> b")), BACK] * 30]
    steps = steps_of(*lines, ("b", "again"))
    short, long = history_of(steps, tail=1), history_of(steps, tail=1000)
    assert route(team(GRAPH), short) == route(team(GRAPH), long)
