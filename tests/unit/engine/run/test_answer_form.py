"""The form that a message demands of its answer: the type, the calls and the instructions."""

from typing import Any

import pytest

from roboco.domain.history.step import INVALID_OUTPUT, OUTPUT
from roboco.domain.inbox.submission import parse_submission
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.errors import UsageError
from roboco.ports.model import Request
from tests.support.memory_ports.journeys import FORMED, NOTE, PLAN, member
from tests.support.memory_ports.model import Script, says
from tests.support.memory_ports.world import World, team_of, world_parts

GOOD = '{"searches": ["tides"], "need_more": false}'
VALUE = {"searches": ["tides"], "need_more": False}


def run(team: Team, script: Script, **options: Any) -> World:
    world = World(world_parts(script))
    world.submit(team, **options)
    world.settle()
    return world


def requests(world: World) -> list[Request]:
    return world.given.model.requests


def test_a_form_holds_for_the_answer_that_ends_the_work_and_until_the_next_message() -> None:
    world = FORMED.run(FORMED.world())
    shown = [
        (step.agent_name, (step.metadata.get("routing") or {}).get("rule", ""), step.text)
        for step in world.history()
        if step.by_agent
    ]
    assert [row for row in shown if row[1] in ("answer_form", "output", "results")] == [
        ("critic", "answer_form", "no plan"),
        ("critic", "output", GOOD),
        ("critic", "answer_form", "no call"),
        ("critic", "output", ""),
        ("critic", "results", "APPROVED"),
        ("critic", "answer_form", "no plan"),
        ("critic", "output", GOOD),
    ]
    assert shown[-1] == ("critic", "answers", "APPROVED")
    assert [step.metadata[OUTPUT] for step in world.history() if step.has_output] == [VALUE, VALUE]
    assert [len(step.calls) for step in world.history() if step.calls] == [1]  # the second call of the reply is dropped
    offered = [[tool["function"]["name"] for tool in request.tools] for request in requests(world)]
    assert [names for names in offered if names][:2] == [
        ["client_note"],
        ["client_note"],
    ]  # of the turns that must call
    systems = [str(request.messages[0]["content"]) for request in requests(world)]
    assert systems[0] == "You are writer.\n\nBe brief."
    assert systems[-1] == "You are critic."


def test_an_agent_with_a_type_of_its_own_keeps_it_and_its_answer_must_fit_both() -> None:
    wider = {"type": "object", "properties": {"searches": {"type": "array"}}, "required": ["searches"]}
    fits = run(team_of(agents=[member("one", output=PLAN)]), lambda request: says(GOOD), answer_form={"schema": wider})
    assert [request.output for request in requests(fits)] == [PLAN]
    other = {"type": "object", "required": ["age"]}
    fails = run(team_of(agents=[member("one", output=PLAN)]), lambda request: says(GOOD), answer_form={"schema": other})
    assert fails.summary().status is TaskStatus.FAILED
    assert "age" in str(fails.history()[1].metadata[INVALID_OUTPUT])


def test_an_answer_without_a_required_call_fails_after_two_corrections() -> None:
    options: dict[str, Any] = {"client_tools": [NOTE], "answer_form": {"calls": "required"}}
    world = run(team_of(agents=[member("one")]), lambda request: says("words"), **options)
    assert [request.tool_choice for request in requests(world)] == ["required"] * 3
    assert "call one of client_note" in world.summary().reason


def test_an_agent_that_is_a_function_answers_as_it_does() -> None:
    team = team_of(agents=[{"name": "one", "function": "shop.agents:one", "effect": "pure"}])
    world = World(world_parts(lambda request: says("x"), {"one": lambda args, context: "words"}))
    world.submit(team, answer_form={"schema": PLAN})
    world.settle()
    assert (world.history()[-1].text, world.summary().status) == ("words", TaskStatus.COMPLETED)


def test_sampling_parameters_of_a_message_replace_those_of_the_profile() -> None:
    team = team_of(agents=[member("one")], models={"m": {"model": "m", "max_tokens": 50, "parameters": {"seed": 1}}})
    sampling = {"temperature": 0.5, "max_tokens": 80, "seed": 7}
    world = run(team, lambda request: says("a"), answer_form={"sampling": sampling})
    profile = requests(world)[0].profile
    assert (profile.temperature, profile.max_tokens, profile.parameters) == (0.5, 50, {"seed": 7})


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"schema": {"enum": ["x" * 70_000]}}, "answer_form, scope and state"),
        ({"calls": "sometimes"}, "answer_form.calls"),
        ({"sampling": {"temperature": 3}}, "answer_form.sampling.temperature"),
    ],
)
def test_a_wrong_form_is_refused(form: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_submission({"task_id": "task_1", "team": "desk", "prompt": "go", "answer_form": form})
