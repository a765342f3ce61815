"""The result that a turn returns to its worker if its step fails the task, and the status that displays show."""

from typing import Any

import pytest
from celery.exceptions import Retry

from roboco.engine.run.attempt_outcome import TurnFailed, TurnOutcome
from roboco.engine.run.turn import run_turn
from roboco.errors import ModelError, TaskFailed
from roboco.workers.celery_result import turn_result
from tests.support.memory_ports.dispatcher import TurnMessage
from tests.support.memory_ports.journeys import member
from tests.support.memory_ports.model import ScriptedReply
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

REASON = "first: the model 'm' does not exist"


def dispatch_first_turn(script: Any, **team: Any) -> tuple[World, TurnMessage]:
    """Return a world with one task and the message of its first turn."""
    world = World(world_parts(script))
    world.submit(team_of(agents=[member("first")], **team))
    world.deliver(world.dispatcher.queue.popleft())
    [message] = [message for message in world.dispatcher.queue if isinstance(message, TurnMessage)]
    return world, message


def refuse(request: object) -> ScriptedReply:
    raise ModelError("bad_request", "the model 'm' does not exist", False)


def test_turn_whose_error_ends_the_task_returns_the_reason() -> None:
    world, message = dispatch_first_turn(refuse)
    assert run_turn(world.engine, message.assignment) == TurnFailed(REASON)


def test_message_of_a_failed_turn_that_is_delivered_twice_returns_the_reason_again() -> None:
    world, message = dispatch_first_turn(refuse)
    run_turn(world.engine, message.assignment)
    assert run_turn(world.engine, message.assignment) == TurnFailed(REASON)
    world.settle()
    assert run_turn(world.engine, message.assignment) == TurnFailed(REASON)


def test_celery_task_of_a_failed_turn_raises_the_reason() -> None:
    with pytest.raises(TaskFailed, match="task task_1 is failed: first: the model 'm' does not exist"):
        turn_result(TASK, TurnFailed(REASON))
    with pytest.raises(Retry):
        turn_result(TASK, TurnOutcome.OUTAGE)
    assert turn_result(TASK, TurnOutcome.COMMITTED) == "committed"
