"""What a turn returns to its worker if its step ends the task as failed, and what displays then show."""

from typing import Any

import pytest
from celery.exceptions import Retry

from roboco.engine.execution.attempt_outcome import TurnOutcome
from roboco.engine.execution.turn import run_turn
from roboco.engine.execution.turn_result import TurnFailed
from roboco.errors import ModelError, TaskFailed
from roboco.ports.dispatcher import AttemptStatus
from roboco.workers.celery_result import turn_result
from tests.support.memory_ports.dispatcher import TurnMessage
from tests.support.memory_ports.journeys import member
from tests.support.memory_ports.model import Said, said
from tests.support.memory_ports.world import TASK, World, given, team_of
from tests.unit.engine.test_attempt_end import dying

REASON = "first: the model 'm' does not exist"


def one_agent(script: Any, **team: Any) -> tuple[World, TurnMessage]:
    """A task whose first turn is announced."""
    world = World(given(script))
    world.submit(team_of(agents=[member("first")], **team))
    world.deliver(world.dispatcher.queue.popleft())
    [message] = [message for message in world.dispatcher.queue if isinstance(message, TurnMessage)]
    return world, message


def refuse(request: object) -> Said:
    raise ModelError("bad_request", "the model 'm' does not exist", False)


def test_turn_whose_error_ends_the_task_returns_the_reason() -> None:
    world, message = one_agent(refuse)
    assert run_turn(world.engine, message.assignment) == TurnFailed(REASON)


def test_message_of_a_failed_turn_that_comes_twice_returns_the_reason_again() -> None:
    world, message = one_agent(refuse)
    run_turn(world.engine, message.assignment)
    assert run_turn(world.engine, message.assignment) == TurnFailed(REASON)
    world.settle()
    assert run_turn(world.engine, message.assignment) == TurnFailed(REASON)


def test_turn_that_is_deferred_or_committed_is_no_failure() -> None:
    world, message = one_agent(lambda request: Said(error=ModelError("server", "away", True)))
    assert run_turn(world.engine, message.assignment) is TurnOutcome.OUTAGE
    world, message = one_agent(lambda request: said("done"))
    assert run_turn(world.engine, message.assignment) is TurnOutcome.COMMITTED
    assert run_turn(world.engine, message.assignment) is TurnOutcome.OBSOLETE


@pytest.mark.parametrize(("at_limit", "failed"), [("end", True), ("pause", False), ("wrap_up", False)])
def test_turn_that_reaches_a_limit_fails_only_if_the_task_ends_there(at_limit: str, failed: bool) -> None:
    world, message = one_agent(lambda request: said("done"), limits={"max_tokens_in": 1, "at_limit": at_limit})
    assert isinstance(run_turn(world.engine, message.assignment), TurnFailed) == failed


def test_failed_turn_whose_worker_died_after_its_step_is_shown_as_failed() -> None:
    world, _ = one_agent(refuse)
    world.watch = dying("histories.append", after=True, times=1)
    world.settle()
    assert world.dispatcher.ends == {(1, "first", 1): AttemptStatus.FAILED}


def test_celery_task_of_a_failed_turn_raises_the_reason() -> None:
    with pytest.raises(TaskFailed, match="task task_1 is failed: first: the model 'm' does not exist"):
        turn_result(TASK, TurnFailed(REASON))
    with pytest.raises(Retry):
        turn_result(TASK, TurnOutcome.OUTAGE)
    assert turn_result(TASK, TurnOutcome.COMMITTED) == "committed"
