"""Conversations: a task that waits for a message where it would complete."""

from typing import Any

import pytest

from roboco.client.session import session
from roboco.client.task_result import result_of
from roboco.domain.recorded.explain import current_status
from roboco.domain.status import TaskStatus
from roboco.errors import TaskFailed
from roboco.lab.replay.replay import replay
from tests.support.memory_ports.journeys import (
    FAILING,
    Journey,
    assert_whole,
    member,
    own_turns,
    speaker,
)
from tests.support.memory_ports.model import says
from tests.support.memory_ports.world import TASK, World, team_of, world_parts


def conversation(journey: Journey, **options: Any) -> World:
    """Return a world in which the journey, as a conversation, waits for the first time."""
    return journey.at_rest(conversation=True, **options)


def talking(**fields: Any) -> World:
    """Return a world with a conversation of two agents that waits for the first time."""
    world = World(world_parts(lambda request: says(f"{speaker(request)} {own_turns(request)}")))
    world.submit(team_of(agents=[member("first"), member("second")], **fields), conversation=True)
    world.settle()
    return world


def test_end_is_a_wait_with_the_reason_of_the_end() -> None:
    world = talking()
    task = world.server.held.tasks[TASK]
    assert (task.status, task.reason) == (TaskStatus.USER_TURN, "1 round is done")
    assert result_of(world.summary(), world.history()).raise_for_status().text == "second 0"
    assert session(world.engine, TASK).status is TaskStatus.USER_TURN
    assert current_status(world.recorded()) == "it is the user's turn: 1 round is done"
    assert not [event for event in world.events() if event["type"] == "event_task_end"]


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
    assert {step.comparison for step in replay(world.recorded())} == {"same"}
    assert_whole(world, "")
