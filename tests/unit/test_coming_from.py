"""The teams of the guide for those who come from another framework, and the code before them."""

import ast
from typing import Any

import pytest

from roboco import Rehearsal, rehearse
from roboco.team_files.file import parse_team
from roboco.team_files.safe_yaml import read_yaml
from tests.support.documents import Example, example, examples

PROMPT = {
    "step_id": "step_0",
    "agent_name": "user",
    "parts": [{"type": "text", "text": "Where is the money for order 17?"}],
    "created_at": "2026-01-01T00:00:00Z",
}


def says(agent: str, text: str) -> dict[str, Any]:
    """Return a turn in which the agent says the text."""
    return {"agent": agent, "parts": [{"type": "text", "text": text}]}


def calls(agent: str, tool: str, **args: Any) -> dict[str, Any]:
    """Return a turn in which the agent calls the tool."""
    call = {"id": f"call_{tool}", "tool_name": tool, "args": args}
    return {"agent": agent, "parts": [{"type": "tool_call", "tool_call": call}]}


def answered(tool: str, result: Any, **args: Any) -> dict[str, Any]:
    """Return the recorded result of a call."""
    part = {"type": "tool_result", "tool_result": {"tool_call_id": f"call_{tool}", "result": result}}
    return {"tool": tool, "args": args, "parts": [part]}


def rehearsed(name: str, *turns: dict[str, Any], recorded: tuple[dict[str, Any], ...] = ()) -> Rehearsal:
    """Run the team of this section on recorded answers."""
    team = parse_team({"name": name} | read_yaml(example("team", name)))
    return rehearse(team, {"opening": [PROMPT], "turns": list(turns), "calls": list(recorded)})


@pytest.mark.parametrize("before", examples("before"), ids=lambda one: one.name)
def test_code_of_another_framework_imports_it(before: Example) -> None:
    imported = [node for node in ast.walk(ast.parse(before.text)) if isinstance(node, ast.ImportFrom)]
    assert before.name in {str(node.module).split(".", maxsplit=1)[0] for node in imported}


def test_each_section_has_a_team_before_and_after() -> None:
    after = {one.name for one in examples("team") if one.page.stem == "coming_from"}
    before = {one.name.removesuffix("_agentchat") for one in examples("before")}
    assert after == before


def test_crew_runs_in_sequence() -> None:
    done = rehearsed("crewai", says("researcher", "It is salty."), says("writer", "The sea is salty."))
    assert (done.agents, done.status) == (["researcher", "writer"], "completed")


def test_desk_hands_over_to_the_clerk() -> None:
    turns = (
        calls("desk", "handoff", destination_agent="clerk", reason="an order"),
        calls("clerk", "order_status", number="17"),
        says("clerk", "It was sent."),
    )
    done = rehearsed("agents", *turns, recorded=(answered("order_status", "sent", number="17"),))
    assert (done.agents, done.status) == (["desk", "clerk", "clerk"], "completed")


def test_round_robin_ends_at_the_word_or_after_its_rounds() -> None:
    approved = rehearsed(
        "autogen",
        says("writer", "Waves."),
        says("critic", "Longer."),
        says("writer", "Big waves."),
        says("critic", "APPROVED"),
    )
    assert (approved.agents, approved.status) == (["writer", "critic", "writer", "critic"], "completed")
    again = [says("writer", "Waves."), says("critic", "Longer.")] * 9
    assert rehearsed("autogen", *again).agents == ["writer", "critic"] * 5


def test_chain_runs_in_sequence() -> None:
    done = rehearsed("celery", says("researcher", "Facts."), says("clerk", "An answer."))
    assert (done.agents, done.status) == (["researcher", "clerk"], "completed")


@pytest.mark.parametrize(("topic", "agents"), [("refund", ["triage", "clerk"]), ("other", ["triage"])])
def test_graph_goes_to_the_clerk_with_a_refund_alone(topic: str, agents: list[str]) -> None:
    answer = {"text": topic, "output": {"topic": topic}}
    done = rehearsed(
        "langgraph", says("clerk", "Soon."), recorded=(answered("triage", "answered") | {"answer": answer},)
    )
    assert (done.agents, done.status) == (agents, "completed")
