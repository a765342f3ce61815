"""A decision does not depend on the number of loaded steps, if these are conclusive."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.domain.decision.action import Situation
from roboco.domain.decision.decide import decide
from roboco.domain.history.state import AFTER_RESULTS, REMINDED_GOALS, History, fold, is_conclusive
from roboco.domain.history.step import LIMIT, NEW_LIMITS
from roboco.domain.inbox.item import UserMessage
from roboco.domain.team.team import Team
from roboco.domain.team.validation import validate_team
from tests.unit.domain.steps import START, Line, call, failed, result, routed, steps_of

EDGES = {"one": [{"to": "two", "max_times": 2}, "END"], "two": ["one"]}
CONDITIONS = {"one": [{"to": "two", "when": {"tool_called": "add"}}, "END"], "two": [{"to": "one", "max_times": 3}]}
MODELS: dict[str, dict[str, Any]] = {
    "sequential": {"type": "sequential", "rounds": 3},
    "manual": {"type": "manual"},
    "graph": {"type": "graph", "routing_graph": EDGES},
    "graph with conditions": {"type": "graph", "routing_graph": CONDITIONS},
}
AGENTS = ("one", "two")
MESSAGE = UserMessage(item_id="m", created_at=START, text="more")


def team(model: str) -> Team:
    """Return a team of two agents with this model."""
    others = {"one": ["two"], "two": ["one"]}
    agents = [{"name": name, "prompt": "hi", "tools": ["add"], "handoffs": others[name]} for name in AGENTS]
    tools = [{"name": "add", "function": "x:add", "effect": "pure"}]
    limits = {"at_limit": "pause", "max_repeats": 0}
    parts = {"agents": agents, "tools": tools, "limits": limits, "collaboration_model": MODELS[model]}
    return validate_team({"name": "desk"} | parts)


def called(agent: str, name: str = "add", rule: str = AFTER_RESULTS, **args: Any) -> list[Line]:
    """Return the steps of a call without a text, and of its result."""
    return [(agent, [call("tc_1", name, args)], routed(agent, rule)), ("tool_executor", [result("tc_1")])]


def said(agent: str, rule: str) -> list[Line]:
    """Return the step of a text."""
    return [(agent, "text", routed(agent, rule))]


INTERRUPTED: list[list[Line]] = [[(agent, "tex", routed(agent) | {"interrupted": True})] for agent in AGENTS]
FRAGMENTS: list[list[Line]] = [
    [("user", "more")],
    [("user", "you", {"agent": "two"})],
    [("orchestrator", [failed(LIMIT)], {LIMIT: "one"})],
    [("orchestrator", "limits", {NEW_LIMITS: {"max_steps": 900}})],
    [("orchestrator", "goals are open", {REMINDED_GOALS: ["g"]})],
    *[said(agent, rule) for agent in AGENTS for rule in ("next", AFTER_RESULTS)],
    *[called(agent, rule=rule) for agent in AGENTS for rule in ("next", AFTER_RESULTS)],
    *INTERRUPTED,
    [*called("one", rule="next"), *said("one", AFTER_RESULTS), *said("one", AFTER_RESULTS)],
    called("one", "handoff", destination_agent="two", reason="yours"),
]


@pytest.mark.parametrize("model", MODELS)
@given(fragments=st.lists(st.sampled_from(FRAGMENTS), max_size=10), queued=st.booleans())
def test_conclusive_steps_lead_to_the_decision_of_all_steps(
    model: str, fragments: list[list[Line]], queued: bool
) -> None:
    desk = team(model)
    steps = steps_of(("user", "go"), *[line for fragment in fragments for line in fragment])
    state, situation = fold(steps), Situation(inbox=(MESSAGE,) if queued else ())
    expected = decide(desk, History(state, tuple(steps)), situation)
    for start in range(1, len(steps)):
        tail = History(state, tuple(steps[start:]))
        if is_conclusive(tail, desk.routes_by_run):
            assert decide(desk, tail, situation) == expected


@pytest.mark.parametrize(("model", "conclusive"), [(name, name != "graph with conditions") for name in MODELS])
def test_only_conditions_need_the_start_of_a_long_run(model: str, conclusive: bool) -> None:
    steps = steps_of(("user", "go"), *called("one", rule="next"), *called("one") * 9, ("user", "more"))
    for tail in (steps[-3:], steps[-8:]):
        assert is_conclusive(History(fold(steps), tuple(tail)), team(model).routes_by_run) is conclusive
    assert not is_conclusive(History(fold(steps), tuple(steps[-2:])), routes_by_run=False)
