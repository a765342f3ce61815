"""Goals: what a user's message asks for, and when the work counts as done."""

import time
from typing import Any

import pytest

from roboco.domain.inbox.submission import parse_submission
from roboco.domain.session.goal import goals_of
from roboco.domain.status import TaskStatus
from roboco.engine.coordinator.submit import submit
from roboco.engine.execution import reply
from roboco.errors import UsageError
from roboco.ports.model import Request
from tests.support.memory_ports.journeys import assert_whole, member
from tests.support.memory_ports.model import Said, Script, said
from tests.support.memory_ports.watch import Fault
from tests.support.memory_ports.world import World, given, team_of
from tests.unit.engine.test_receive import die

ANSWER = {
    "name": "answer",
    "description": "the number",
    "schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
}
SOURCE = {"name": "source", "description": "where it comes from", "schema": {"type": "object"}}
TEAM = team_of(agents=[member("lead")])


def task(script: Script, *goals: dict[str, Any], team: Any = TEAM) -> World:
    """A task with these goals that has settled."""
    world = World(given(script))
    world.submit(team, goals=list(goals))
    world.settle()
    return world


def in_turn(*answers: Said) -> Script:
    """A script that gives these answers in turn: which one, the request says."""
    return lambda request: answers[sum(1 for message in request.messages if message["role"] == "assistant")]


def test_a_valid_call_achieves_a_goal() -> None:
    world = task(in_turn(said("", ("achieve_answer", {"n": 7})), said("done")), ANSWER)
    assert world.summary().status is TaskStatus.COMPLETED
    [goal] = goals_of(world.history())
    assert (goal.status, goal.outcome, goal.name) == ("achieved", {"n": 7}, "answer")
    assert goal.tool_use_id == world.history()[1].calls[0].id
    assert goal.achieved_at == world.history()[2].created_at
    assert not world.given.toolbox.runs
    assert_whole(world, "")


def test_an_agent_is_offered_a_tool_for_each_goal() -> None:
    world = task(in_turn(said("", ("achieve_answer", {"n": 1}), ("achieve_source", {})), said("done")), ANSWER, SOURCE)
    tools = {one["function"]["name"]: one["function"] for one in world.given.model.requests[0].tools}
    assert tools["achieve_answer"]["parameters"] == ANSWER["schema"]
    assert "where it comes from" in tools["achieve_source"]["description"]
    assert [goal.status for goal in goals_of(world.history())] == ["achieved", "achieved"]


def test_a_call_that_does_not_fit_achieves_nothing_and_says_why() -> None:
    world = task(
        in_turn(said("", ("achieve_answer", {"n": "x"})), said("", ("achieve_answer", {"n": 2})), said("done")), ANSWER
    )
    assert "$.n: 'x' is not of type 'integer'" in str(world.history()[2].results[0].error)
    assert [goal.outcome for goal in goals_of(world.history())] == [{"n": 2}]


def test_what_one_answer_has_checked_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model server sends many calls, each of which takes long to check; a turn has no other limit on that."""
    monkeypatch.setattr(reply, "MAX_CHECK_SECONDS", 0.05)
    checked: list[object] = []

    def slow(schema: object, args: object) -> str:
        checked.append(args)
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass
        return ""

    calls = [("achieve_answer", {"n": number}) for number in range(50)]
    world = World(given(in_turn(said("", *calls), said("done"))))
    monkeypatch.setattr(world.given.toolbox, "args_error", slow)
    world.submit(TEAM, goals=[ANSWER])
    world.settle()
    assert 1 <= len(checked) <= 3
    assert "not checked: the arguments of this answer's calls take" in str(world.history()[2].results[-1].error)
    assert [goal.outcome for goal in goals_of(world.history())] == [{"n": 0}]


def test_the_first_outcome_stands() -> None:
    world = task(
        in_turn(
            said("", ("achieve_answer", {"n": 1}), ("achieve_answer", {"n": 2})),
            said("", ("achieve_answer", {"n": 3})),
            said("done"),
        ),
        ANSWER,
    )
    assert [goal.outcome for goal in goals_of(world.history())] == [{"n": 1}]
    assert "achieved before" in str(world.history()[2].results[1].error)
    assert "achieved before" in str(world.history()[4].results[0].error)


def test_who_stops_too_early_is_reminded() -> None:
    world = task(in_turn(said("I am done"), said("", ("achieve_answer", {"n": 7})), said("really")), ANSWER)
    names = [step.agent_name for step in world.history()]
    assert names == ["user", "lead", "orchestrator", "lead", "tool_executor", "lead"]
    reminder = world.history()[2]
    assert "answer (call achieve_answer)" in reminder.text
    assert world.given.model.requests[1].messages[-1]["content"] == f"[orchestrator] {reminder.text}"
    assert world.summary().status is TaskStatus.COMPLETED
    assert_whole(world, "")


def test_reminders_are_bounded_and_then_the_goals_have_failed() -> None:
    world = task(lambda request: said("I am done"), ANSWER, SOURCE)
    assert world.summary().status is TaskStatus.GOALS_FAILED
    assert world.summary().reason == "not achieved: answer, source"
    assert [step.agent_name for step in world.history()].count("orchestrator") == TEAM.limits.goal_prompts + 1
    assert [goal.status for goal in goals_of(world.history())] == ["failed", "failed"]
    assert_whole(world, "")


def test_a_team_may_remind_nobody() -> None:
    team = team_of(agents=[member("lead")], limits={"goal_prompts": 0})
    world = task(lambda request: said("I am done"), ANSWER, team=team)
    assert [step.agent_name for step in world.history()] == ["user", "lead", "orchestrator"]


def test_a_team_that_asks_its_user_is_reminded_first() -> None:
    team = team_of(agents=[member("lead")], collaboration_model={"type": "manual"})
    world = task(in_turn(said("what now?"), said("", ("achieve_answer", {"n": 1})), said("there")), ANSWER, team=team)
    assert world.status() is TaskStatus.USER_TURN
    assert [goal.status for goal in goals_of(world.history())] == ["achieved"]


def test_a_message_may_bring_goals_of_its_own() -> None:
    team = team_of(agents=[member("lead")], collaboration_model={"type": "manual"})

    def script(request: Request) -> Said:
        last = request.messages[-1]["content"]
        return said("", ("achieve_source", {})) if last == "and where from?" else said("well")

    world = World(given(script))
    world.submit(team)
    world.settle()
    from_message = {"goals": [SOURCE]}
    world.send("and where from?", attachments=from_message)
    world.settle()
    assert world.status() is TaskStatus.USER_TURN
    assert [(goal.name, goal.status) for goal in goals_of(world.history())] == [("source", "achieved")]


@pytest.mark.parametrize(
    ("goals", "told"),
    [
        ([ANSWER] * 6, "goals: .*at most 5"),
        ([ANSWER, ANSWER], "goals: 'answer' is there twice"),
        ([ANSWER | {"name": "no name"}], "goals.0.name"),
        ([ANSWER | {"schema": {"type": "intger"}}], "goals.answer.schema: is no JSON Schema"),
        ([ANSWER | {"schema": {"type": "array"}}], "must be the schema of an object"),
        ([ANSWER | {"more": 1}], "goals.0.more: no such argument"),
    ],
)
def test_goals_are_checked_before_anything_is_stored(goals: list[Any], told: str) -> None:
    world = World(given(lambda request: said("x")))
    with pytest.raises(UsageError, match=told):
        submit(world.engine, parse_submission({"task_id": "t", "team": "desk", "prompt": "p", "goals": goals}), TEAM)
    assert not world.files.held


@pytest.mark.parametrize("after", [False, True])
def test_a_death_at_every_moment(after: bool) -> None:
    script = in_turn(said("done?"), said("", ("achieve_answer", {"n": 7})), said("done"))
    expected = [step.text for step in task(script, ANSWER).history()]
    n, struck = 0, True
    while struck:
        n += 1
        world = World(given(script))
        world.watch = fault = Fault(n, die, after=after)
        world.submit(TEAM, goals=[ANSWER])
        world.settle()
        struck = fault.struck
        assert [step.text for step in world.history()] == expected, n
        assert [goal.outcome for goal in goals_of(world.history())] == [{"n": 7}]
        assert_whole(world, f"{n}")
