"""Conversations: a task that waits for a message where it would complete."""

from typing import Any

import pytest

from roboco.client.session import session
from roboco.client.task_result import result_of
from roboco.domain.decision.action import End, Wait
from roboco.domain.decision.decide import decide
from roboco.domain.decision.route import Route
from roboco.domain.decision.situation import Situation
from roboco.domain.history.part import ErrorPart
from roboco.domain.history.state import History, fold
from roboco.domain.history.step import TaskStep
from roboco.domain.recorded.explain import current_status
from roboco.domain.recorded.recorded_task import RecordedTask
from roboco.domain.status import TaskStatus
from roboco.errors import TaskFailed
from roboco.lab.replay.replay import replay
from roboco.ports.model import Request
from tests.support.memory_ports.controlled import GOAL
from tests.support.memory_ports.journeys import (
    FAILING,
    GRAPH,
    SEQUENTIAL,
    Journey,
    assert_whole,
    member,
    own_turns,
    speaker,
)
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

PAIR = team_of(agents=[member("first"), member("second")])


def conversation(journey: Journey, **options: Any) -> World:
    """Return a world in which the journey, as a conversation, waits for the first time."""
    world = journey.world()
    world.submit(journey.team, conversation=True, **options)
    world.settle()
    return world


def talking(**fields: Any) -> World:
    """Return a world with a conversation of two agents that waits for the first time."""
    world = World(world_parts(lambda request: says(f"{speaker(request)} {own_turns(request)}")))
    world.submit(team_of(agents=[member("first"), member("second")], **fields), conversation=True)
    world.settle()
    return world


def recorded(world: World) -> RecordedTask:
    team, steps = world.engine.workspace.frozen_teams.get(TASK), tuple(world.history())
    reason = world.server.held.tasks[TASK].reason
    return RecordedTask(team, steps, world.status(), reason, started_at=steps[0].created_at)


def test_end_is_a_wait_with_the_reason_of_the_end() -> None:
    world = talking()
    task = world.server.held.tasks[TASK]
    assert (task.status, task.reason) == (TaskStatus.USER_TURN, "1 round is done")
    assert result_of(world.summary(), world.history()).raise_for_status().text == "second 0"
    assert session(world.engine, TASK).status is TaskStatus.USER_TURN
    assert current_status(recorded(world)) == "it is the user's turn: 1 round is done"
    assert not [event for event in world.events() if event["type"] == "event_task_end"]


def test_next_messages_continue_the_same_history_as_in_a_waiting_task() -> None:
    world = talking()
    for number in (1, 2):
        world.send(f"message {number}", f"item{number}")
        world.settle()
        assert world.status() is TaskStatus.USER_TURN
        assert [step.agent_name for step in world.history()][-2:] == ["user", "second"]
        assert world.history()[-1].text == f"second {number}"
    assert world.history()[3].metadata["routing"]["rule"] == "rounds done"
    assert {step.comparison for step in replay(recorded(world))} == {"same"}
    assert_whole(world, "")


@pytest.mark.parametrize("journey", [GRAPH, SEQUENTIAL], ids=["graph", "sequential"])
def test_every_router_waits_where_it_ends(journey: Journey) -> None:
    world = conversation(journey)
    ended = journey.world()
    journey.run(ended)
    assert ended.summary().status is TaskStatus.COMPLETED
    assert [step.text for step in world.history()] == [step.text for step in ended.history()]
    assert (world.status(), world.summary().reason) == (TaskStatus.USER_TURN, ended.summary().reason)


def test_stop_ends_it() -> None:
    world = talking()
    world.stop()
    world.settle()
    assert world.summary().status is TaskStatus.CANCELLED


def test_a_turn_that_fails_for_good_waits_for_the_user_under_the_same_id() -> None:
    world = conversation(FAILING)
    result = result_of(world.summary(), world.history())
    assert (world.status(), result.turn_failed) == (TaskStatus.USER_TURN, True)
    assert "the model refuses" in result.reason
    with pytest.raises(TaskFailed, match="the model refuses"):
        result.raise_for_status()
    world.server.wipe()
    world.given.model.script = lambda request: says("well")
    world.send("again")
    world.settle()
    assert (world.status(), world.history()[-1].text) == (TaskStatus.USER_TURN, "well")
    said = [message["content"] for message in world.given.model.requests[-1].messages]
    assert not [text for text in said if "refuses" in str(text)]
    assert not result_of(world.summary(), world.history()).turn_failed
    assert {step.comparison for step in replay(recorded(world))} == {"same"}
    assert_whole(world, "")


def test_a_sub_task_of_a_conversation_fails() -> None:
    past = History(fold(talking().history()), tuple(talking().history()))
    error = TaskStep(agent_name="first", seq=3, parts=(ErrorPart(code="model", message="no"),)).sealed("")
    failed = History(past.state.after(error), (error,))
    assert decide(PAIR, failed, Situation()) == Wait(TaskStatus.USER_TURN, Route("USER", "sequential", "failed", "no"))
    assert decide(PAIR, failed, Situation(sub_task=True)) == End(TaskStatus.FAILED, "no")


def test_open_goals_end_it() -> None:
    world = World(world_parts(lambda request: says("no")))
    world.submit(PAIR, conversation=True, goals=[GOAL])
    world.settle()
    assert world.summary().status is TaskStatus.GOALS_FAILED


@pytest.mark.parametrize(
    ("at_limit", "status"),
    [("end", TaskStatus.FAILED), ("pause", TaskStatus.PAUSED), ("wrap_up", TaskStatus.COMPLETED)],
)
def test_limits_end_or_pause_it(at_limit: str, status: TaskStatus) -> None:
    world = talking(limits={"max_steps": 3, "at_limit": at_limit})
    assert world.status() is TaskStatus.USER_TURN
    world.send("more")
    world.settle()
    assert world.status() is status


def test_sub_task_of_a_conversation_ends() -> None:
    def script(request: Request) -> ScriptedReply:
        if speaker(request) != "lead":
            return says("did it")
        return says("you", ("delegate", {"team": "helpers", "prompt": "a"})) if own_turns(request) == 0 else says("so")

    helpers = {"name": "helpers", "agents": [member("one")]}
    world = World(world_parts(script))
    world.submit(team_of(agents=[member("lead", delegates=["helpers"])], teams={"helpers": helpers}), conversation=True)
    world.settle()
    assert [result.is_error for result in world.history()[2].results] == [False]
    assert world.status() is TaskStatus.USER_TURN
