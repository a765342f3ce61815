"""Answers with a type: the value in the metadata, corrections, and what conditions, prompts and callers see."""

from contextlib import nullcontext
from typing import Any

import pytest

from roboco.client.task_result import result_of
from roboco.domain.history.step import INVALID_OUTPUT, OUTPUT
from roboco.domain.prompt.typed_answer import answer_value
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.errors import UsageError
from roboco.ports.model import Request
from tests.support.memory_ports.journeys import PLAN, TYPED, member
from tests.support.memory_ports.model import Script, ScriptedReply, says
from tests.support.memory_ports.world import World, team_of, world_parts

GOOD = '{"searches": ["tides"], "need_more": false}'


def run(script: Script, team: Team, **options: Any) -> World:
    world = World(world_parts(script))
    world.submit(team, **options)
    world.settle()
    return world


def typed_team(**fields: Any) -> Team:
    return team_of(agents=[member("planner", output=PLAN, **fields)])


def test_an_answer_is_asked_for_again_then_routes_and_fills_prompts() -> None:
    world = TYPED.run(TYPED.world())
    planned = [step for step in world.history() if step.agent_name == "planner"]
    assert [step.metadata.get(OUTPUT) for step in planned] == [
        None,
        {"searches": ["tides"], "need_more": True},
        {"searches": [], "need_more": False},
    ]
    assert planned[0].metadata[INVALID_OUTPUT] == "it is no JSON"
    assert planned[1].metadata["routing"]["rule"] == "output"
    assert world.history()[3].text == "found tides"
    assert world.summary().status is TaskStatus.COMPLETED
    result = result_of(world.summary(), world.history())
    assert result.output == {"searches": [], "need_more": False} == result.outputs["planner"]


def test_a_team_with_a_wrong_schema_is_refused_at_submission() -> None:
    world = World(world_parts(lambda request: says("x")))
    with pytest.raises(UsageError, match="output of agent 'planner'"):
        world.submit(team_of(agents=[member("planner", output={"type": "object", "properties": 3})]))


@pytest.mark.parametrize("kind", ["array", "object"])
def test_a_schema_refers_to_itself_as_the_root_if_it_is_that_of_an_object(kind: str) -> None:
    schema = {"type": kind, "properties": {"more": {"$ref": "#"}}, "items": {"$ref": "#"}, "default": '"$ref":"#"'}
    refused = {"array": pytest.raises(UsageError, match=r"'planner': has the reference '#'.*#/\$defs/NAME")}
    with refused.get(kind, nullcontext()):
        World(world_parts(lambda request: says("x"))).submit(team_of(agents=[member("planner", output=schema)]))


def test_a_list_of_such_lists_is_checked_by_its_definition() -> None:
    tree = {"type": "array", "items": {"$ref": "#/$defs/tree"}}
    world = run(
        lambda request: says('{"value": [[], [[]]]}'),
        team_of(agents=[member("planner", output={"$ref": "#/$defs/tree", "$defs": {"tree": tree}})]),
    )
    assert world.history()[-1].metadata[OUTPUT] == [[], [[]]]


def test_goals_are_offered_to_the_agents_that_name_them() -> None:
    goal = {"name": "report", "description": "report", "outcome": {"type": "object", "properties": {}}}
    team = team_of(agents=[member("one"), member("two", goals=["report"])])
    replies = {"You are one.": says("on"), "You are two.": says("", ("achieve_report", {}))}

    def script(request: Request) -> ScriptedReply:
        if any(message["role"] == "tool" for message in request.messages):
            return says("done")
        return replies[str(request.messages[0]["content"])]

    world = run(script, team, goals=[goal])
    offered = [[tool["function"]["name"] for tool in request.tools] for request in world.given.model.requests]
    assert offered[0] == []
    assert offered[1] == ["achieve_report"]


def test_an_agent_achieves_no_goal_that_others_name_and_reminders_go_to_those() -> None:
    goal = {"name": "draft", "description": "draft", "outcome": {"type": "object", "properties": {}}}
    team = team_of(agents=[member("writer", goals=["draft"]), member("critic", goals=[])])

    def script(request: Request) -> ScriptedReply:
        reminded = "still open" in str(request.messages) or "draft" in str(request.messages[-1]["content"])
        if any(message["role"] == "tool" for message in request.messages):
            return says("done")
        if "critic" in str(request.messages[0]["content"]):
            return says("", ("achieve_draft", {}))
        return says("", ("achieve_draft", {})) if reminded else says("a draft")

    world = run(script, team, goals=[goal])
    refused, achieved = (result for step in world.history() for result in step.results)
    assert "not on your list" in str(refused.error)
    assert not achieved.is_error
    after_reminder = next(step for step in world.history() if "reminded_goals" in step.metadata).seq + 1
    assert world.history()[after_reminder].agent_name == "writer"
    assert world.summary().status is TaskStatus.COMPLETED


def test_a_check_that_breaks_fails_the_task_and_keeps_what_the_reply_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> object:
        raise UsageError("the check of its answer failed: KeyError: 'x'")

    monkeypatch.setattr("tests.support.memory_ports.toolbox.MemoryToolbox.checked_output", broken)
    world = run(lambda request: says(GOOD), typed_team())
    step = world.history()[-1]
    assert (step.error is not None and step.error.code, step.text) == ("output_check", GOOD)
    assert world.summary().tokens_out > 0


def test_an_answer_that_overfills_the_state_is_asked_for_again() -> None:
    large = f'{{"searches": ["{"x" * 40_000}"], "need_more": false}}'
    world = run(lambda request: says(large), typed_team(state=["searches"]))
    assert "state: has" in world.summary().reason


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('first {"a": 1}, no: {"a": {"b": 2}}.', {"a": {"b": 2}}),
        ('a draft {"a": 1}\n```json\n{"a": 2}\n```\nas {"the": "question"} said', {"a": 2}),
        ('```\n{"a": 1}\n```\n```json\n{"a": 2}\n```\n```python\nrun()\n```', {"a": 2}),
        ("{" * 100 + '{"a": 1}', None),
        ('{"a": NaN}', None),
    ],
)
def test_the_last_value_of_an_answer_in_prose_counts(text: str, value: object) -> None:
    try:
        assert answer_value({"type": "object"}, text) == value
    except ValueError:
        assert value is None
