"""The memory that a task takes in Redis does not grow with its history."""

import os
from itertools import count
from typing import Any

import pytest

from roboco.domain.paths import event_segments_path, events_path
from roboco.domain.status import TaskStatus
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.support.memory_ports.journeys import member
from tests.support.memory_ports.model import ScriptedReply
from tests.support.memory_ports.parts import with_parts
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

pytestmark = pytest.mark.redis

MAX_TASK_BYTES = 256 * 1024
MAX_WAITING_BYTES = 4096
STEP_COUNT = int(os.environ.get("TASK_STEPS", "2000"))
WORDS = [f"word{number % 10}" for number in range(120)]
REPLY = ScriptedReply(tuple(" ".join(WORDS[at : at + 10]) + " " for at in range(0, 120, 10)))
"""A reply of about 120 tokens in 12 chunks."""


def world_on_redis(task: TaskOnRedis) -> World:
    """Return a deployment whose tasks are on Redis, and whose other ports are in memory."""
    world = World(world_parts(lambda request: REPLY))
    world.engine = with_parts(
        world.engine,
        task_store=task.store,
        leases=task.leases,
        event_logs=task.logs,
        schedule=task.schedule,
    )
    task.schedule.mark_filled(3600)
    return world


def sizes(task: TaskOnRedis) -> dict[str, int]:
    """Return the memory of each key in bytes."""
    client: Any = task.client
    return {name.rpartition(":")[2]: client.memory_usage(name, samples=0) for name in task.names() if TASK in name}


@pytest.mark.slow
def test_a_long_task_takes_a_bounded_memory(redis_task: TaskOnRedis) -> None:
    """A team of one agent with the default context: the log, the content and the tail stay short."""
    world = world_on_redis(redis_task)
    team = team_of(
        agents=[member("one")],
        collaboration_model={"type": "sequential", "rounds": STEP_COUNT},
        limits={"max_steps": 2 * STEP_COUNT, "max_repeats": 0},
    )
    world.submit(team)
    largest: dict[str, int] = {}
    for message in count():
        if not world.dispatcher.queue:
            break
        world.deliver(world.dispatcher.queue.popleft())
        if message % 23 == 0:
            largest = max(largest, sizes(redis_task), key=lambda found: sum(found.values()))
    print(f"{STEP_COUNT} steps: at most {sum(largest.values())} bytes in Redis: {largest}")
    assert world.failures == []
    assert len(world.history()) == STEP_COUNT + 1
    assert sum(largest.values()) < MAX_TASK_BYTES, largest
    assert world.files.held[events_path(TASK)].count(b"event_step_end") == STEP_COUNT + 1
    assert world.files.names(event_segments_path(TASK)) == []


def test_a_waiting_task_takes_little_beside_its_tail(redis_task: TaskOnRedis) -> None:
    world = world_on_redis(redis_task)
    world.submit(team_of(agents=[member("one"), member("two")], collaboration_model={"type": "manual"}))
    for number in range(12):
        world.drain()
        assert redis_task.store.load(TASK, 1).position.status is TaskStatus.USER_TURN  # type: ignore[union-attr]
        found = sizes(redis_task)
        print(f"a waiting task after {number} answers: {found} bytes")
        assert sum(found.values()) - found["tail"] < MAX_WAITING_BYTES, found
        world.send(f"and now {number}", item_id=f"item{number}")
    assert world.failures == []
