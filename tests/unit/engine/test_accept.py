"""accept: an external item counts exactly once, whenever it arrives."""

import pytest

from roboco.domain.inbox.item import UserMessage
from roboco.domain.limits import Limits
from roboco.domain.status import TaskStatus
from roboco.engine.accept.accept_item import accept_item
from roboco.errors import UsageError
from tests.support.memory_ports.journeys import MANUAL, SEQUENTIAL
from tests.support.memory_ports.watch import refusing
from tests.support.memory_ports.world import TASK, World


def waiting_task() -> World:
    """Return the world of the manual team after the helper's first answer."""
    world = MANUAL.world()
    world.submit(MANUAL.team.model_copy(update={"limits": Limits(max_steps=1000)}))
    world.settle()
    assert world.status() is TaskStatus.USER_TURN
    return world


def texts_of_user(world: World) -> list[str]:
    return [step.text for step in world.history() if step.agent_name == "user"]


@pytest.mark.parametrize("again", ["at once", "after it was taken", "after 100 others"])
def test_a_repeated_message_counts_once(again: str) -> None:
    world = waiting_task()
    world.send("more", "first")
    if again != "at once":
        world.settle()
    for n in range(100 if again == "after 100 others" else 0):
        world.send(f"other {n}", f"other{n}")
    world.settle()
    world.send("more", "first")
    world.settle()
    assert texts_of_user(world).count("more") == 1


@pytest.mark.parametrize("task_id", ["task_1", "unknown"])
def test_a_message_to_an_ended_or_unknown_task_is_refused(task_id: str) -> None:
    world = SEQUENTIAL.at_rest()
    files = dict(world.files.held)
    with pytest.raises(UsageError, match="has ended \\(completed\\)" if task_id == TASK else "no task 'unknown'"):
        accept_item(world.engine, task_id, UserMessage(item_id="i", created_at=world.engine.now(), text="x"))
    assert world.files.held == files


def test_a_message_is_checked_at_once_if_its_wake_up_cannot_be_sent() -> None:
    world = waiting_task()
    world.watch = refusing("dispatcher.advance")
    world.send("more")
    assert world.server.held.schedule[TASK] <= world.clock.now()
