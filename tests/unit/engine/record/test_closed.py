"""Users act on a task that has ended while a coordinator closes it, at each request of the close."""

from collections.abc import Callable
from typing import Any

import pytest

from roboco.domain.history.lineage import Retry
from roboco.domain.inbox.item import Stop, UserMessage
from roboco.domain.paths import open_marker_path
from roboco.domain.status import TaskStatus
from roboco.engine.accept.accept_item import CLOSING_TIMEOUT, accept_item
from roboco.engine.accept.fork import retry_task
from roboco.engine.record.task_tar import check_exportable
from roboco.engine.retry import CLOSE_TIMEOUT
from roboco.errors import AlreadyEnded, TransientError
from roboco.ports.snapshot import Phase
from tests.support.memory_ports.controlled import RETRIED
from tests.support.memory_ports.journeys import SEQUENTIAL, Journey
from tests.support.memory_ports.watch import PortCall, make_call
from tests.support.memory_ports.world import TASK, World

Act = Callable[[World], None]
MOMENTS = 12
"""At least as many requests of a coordinator follow the end of a task, while it has its marker."""


def act_at(journey: Journey, number: int, act: Act) -> World:
    """Act after the request of this number that follows the end, as another process does.

    While that process pauses, another coordinator closes the task. Then the first coordinator goes on.
    """
    world, seen = journey.world(), 0

    def watch(name: str, call: PortCall) -> Any:
        nonlocal seen
        answer = call()
        task = world.server.held.tasks.get(TASK)
        if task is not None and task.phase is Phase.END and open_marker_path(TASK) in world.files.held:
            seen += 1
            if seen == number:
                world.watch = make_call
                sleep = world.clock.sleep

                def close(seconds: float) -> None:
                    world.clock.sleep = sleep  # type: ignore[method-assign]
                    world.settle()

                world.clock.sleep = close  # type: ignore[method-assign]
                act(world)
                world.clock.sleep = sleep  # type: ignore[method-assign]
        return answer

    world.watch = watch
    world.submit(journey.team)
    world.settle()
    assert seen == number, "the task was closed before"
    return world


def send(world: World) -> None:
    with pytest.raises(AlreadyEnded, match=r"has ended"):
        accept_item(world.process(), TASK, UserMessage(item_id="late", created_at=world.engine.now(), text="late"))


def stop(world: World) -> None:
    accept_item(world.process(), TASK, Stop(item_id="stop1", created_at=world.engine.now()))


def retry(world: World) -> None:
    assert retry_task(world.process(), TASK, Retry())


def export(world: World) -> None:
    check_exportable(world.process(), TASK)
    assert open_marker_path(TASK) not in world.files.held


@pytest.mark.parametrize("number", range(1, MOMENTS + 1, 2))
@pytest.mark.parametrize("act", [send, stop, export], ids=lambda act: act.__name__)
def test_a_task_that_is_being_closed_has_ended(act: Act, number: int) -> None:
    world = act_at(SEQUENTIAL, number, act)
    assert (world.summary().status, world.pending_item_ids()) == (TaskStatus.COMPLETED, [])


@pytest.mark.parametrize("number", range(1, MOMENTS + 1, 2))
def test_a_failed_task_that_is_being_closed_is_retried(number: int) -> None:
    world = act_at(RETRIED, number, retry)
    world.settle(world.summary().retried_as)
    assert world.summary(world.summary().retried_as).status is TaskStatus.COMPLETED


@pytest.mark.parametrize(("act", "seconds"), [(send, CLOSING_TIMEOUT), (export, CLOSE_TIMEOUT)])
def test_no_caller_waits_for_long_if_the_coordinator_has_died(act: Act, seconds: float) -> None:
    world = SEQUENTIAL.at_rest()
    world.files.put(open_marker_path(TASK), b"closing 7")
    began = world.clock.now()
    with pytest.raises(TransientError):
        act(world)
    assert seconds / 2 < world.clock.now() - began <= seconds
