"""Goals: the results that a user's message asks for, and the conditions under which the work is done."""

import time
from typing import Any

import pytest

from roboco.domain.inbox.submission import parse_submission
from roboco.domain.session.goal import goals_of
from roboco.domain.status import TaskStatus
from roboco.engine.coordinate.submit import submit
from roboco.engine.run import reply
from roboco.errors import UsageError
from roboco.ports.model import Request
from tests.support.memory_ports.journeys import assert_whole, member
from tests.support.memory_ports.model import Script, ScriptedReply, says
from tests.support.memory_ports.world import World, team_of, world_parts

ANSWER_GOAL = {
    "name": "answer",
    "description": "the number",
    "schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
}
SOURCE_GOAL = {"name": "source", "description": "the origin of the number", "schema": {"type": "object"}}
TEAM = team_of(agents=[member("lead")])


def settled_task(script: Script, *goals: dict[str, Any], team: Any = TEAM) -> World:
    """Return a world whose task with these goals has settled."""
    world = World(world_parts(script))
    world.submit(team, goals=list(goals))
    world.settle()
    return world


def answer_in_turn(*answers: ScriptedReply) -> Script:
    """Return a script that gives these answers in turn; the number of replies in a request selects the answer."""
    return lambda request: answers[sum(1 for message in request.messages if message["role"] == "assistant")]


def test_the_time_to_check_the_calls_of_an_answer_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model server may send a large number of calls that are slow to check; a turn has no other limit on them."""
    monkeypatch.setattr(reply, "MAX_CHECK_SECONDS", 0.05)
    checked: list[object] = []

    def slow(schema: object, args: object) -> str:
        checked.append(args)
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass
        return ""

    calls = [("achieve_answer", {"n": number}) for number in range(50)]
    world = World(world_parts(answer_in_turn(says("", *calls), says("done"))))
    monkeypatch.setattr(world.given.toolbox, "args_error", slow)
    world.submit(TEAM, goals=[ANSWER_GOAL])
    world.settle()
    assert 1 <= len(checked) <= 3
    assert "not checked: the arguments of this answer's calls take" in str(world.history()[2].results[-1].error)
    assert [goal.outcome for goal in goals_of(world.history())] == [{"n": 0}]


def test_goals_fail_after_a_limited_number_of_reminders() -> None:
    world = settled_task(lambda request: says("I am done"), ANSWER_GOAL, SOURCE_GOAL)
    assert world.summary().status is TaskStatus.GOALS_FAILED
    assert world.summary().reason == "not achieved: answer, source"
    assert [step.agent_name for step in world.history()].count("orchestrator") == TEAM.limits.goal_prompts + 1
    assert [goal.status for goal in goals_of(world.history())] == ["failed", "failed"]
    assert_whole(world, "")


def test_a_message_may_have_goals() -> None:
    team = team_of(agents=[member("lead")], collaboration_model={"type": "manual"})

    def script(request: Request) -> ScriptedReply:
        last = request.messages[-1]["content"]
        return says("", ("achieve_source", {})) if last == "and where from?" else says("well")

    world = World(world_parts(script))
    world.submit(team)
    world.settle()
    from_message = {"goals": [SOURCE_GOAL]}
    world.send("and where from?", attachments=from_message)
    world.settle()
    assert world.status() is TaskStatus.USER_TURN
    assert [(goal.name, goal.status) for goal in goals_of(world.history())] == [("source", "achieved")]


@pytest.mark.parametrize(
    ("goals", "expected"),
    [
        ([ANSWER_GOAL] * 6, "goals: .*at most 5"),
        ([ANSWER_GOAL, ANSWER_GOAL], "goals: 'answer' is there twice"),
        ([ANSWER_GOAL | {"schema": {"type": "intger"}}], "goals.answer.schema: must be the schema of an object"),
    ],
)
def test_goals_are_checked_before_any_write(goals: list[Any], expected: str) -> None:
    world = World(world_parts(lambda request: says("x")))
    with pytest.raises(UsageError, match=expected):
        submit(world.engine, parse_submission({"task_id": "t", "team": "desk", "prompt": "p", "goals": goals}), TEAM)
    assert not world.files.held
