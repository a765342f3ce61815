"""Reads of a long task: those that a page of it makes read few steps, whatever their number."""

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest

from roboco.client import stream
from roboco.client.pending_actions import PendingActions
from roboco.client.stream import TaskStream, WorkerCheck
from roboco.client.task import Task
from roboco.client.task_explanation import explanation_of
from roboco.client.usage_report import usage_report
from roboco.domain.history.step import TaskStep
from roboco.domain.history.steps_on_demand import BLOCK_STEPS
from roboco.domain.limits import LimitOverrides
from roboco.domain.paths import summary_path
from roboco.engine.accept.control import set_limits
from roboco.ports.histories import Histories
from roboco.redis.stream.follower import RedisFollower
from roboco.settings import Settings
from tests.support.memory_ports.journeys import member
from tests.support.memory_ports.model import says
from tests.support.memory_ports.parts import with_parts
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

MESSAGES = 100
"""Messages of the task, each with an answer."""
LIMITS = {"max_steps": 1000}
TEAM = team_of(agents=[member("helper")], collaboration_model={"type": "manual"}, limits=LIMITS)


class CountedHistories:
    """The histories of a world, with the number of steps and lines that were read."""

    def __init__(self, histories: Histories) -> None:
        self._histories = histories
        self.steps = 0
        self.lines_read = 0

    def read(self, task_id: str, start: int = 0) -> Iterator[TaskStep]:
        """Yield the steps from a position on."""
        for step in self._histories.read(task_id, start):
            self.steps += 1
            yield step

    def lines(self, task_id: str) -> Iterator[bytes]:
        """Yield the stored lines."""
        for line in self._histories.lines(task_id):
            self.lines_read += 1
            yield line


def long_world(messages: int = MESSAGES) -> World:
    """Return a world whose task waits after many messages, and has new limits."""
    world = World(world_parts(lambda request: says("text")))
    world.submit(TEAM)
    world.settle()
    for number in range(messages):
        world.send("more", f"item{number}")
        world.settle()
    set_limits(world.engine, TASK, LimitOverrides.model_validate({"max_cost": 7}), "raise1")
    world.settle()
    return world


def ended_world(messages: int = MESSAGES) -> World:
    """Return a world whose long task has ended, and which Redis does not have any more."""
    world = long_world(messages)
    world.stop()
    world.settle()
    world.server.wipe()
    return world


def reader(world: World) -> tuple[Task, CountedHistories]:
    """Return the task of a world, and the reads of its history."""
    counted = CountedHistories(world.histories)
    return Task(
        TASK, with_parts(world.engine, histories=cast(Histories, counted)), cast(Any, None), Settings()
    ), counted


@pytest.fixture(scope="module", params=[long_world, ended_world])
def world(request: pytest.FixtureRequest) -> World:
    made: World = request.param()
    return made


def test_the_usage_reads_no_step(world: World) -> None:
    task, histories = reader(world)
    assert usage_report(task).limits.max_cost == 7
    assert (histories.steps, histories.lines_read) == (0, 0)


def test_the_limits_of_a_summary_without_them_are_those_of_the_history() -> None:
    world = ended_world(messages=3)
    record = json.loads(world.files.held[summary_path(TASK)])
    assert record.pop("limit_overrides") == {"max_cost": 7}
    world.files.held[summary_path(TASK)] = json.dumps(record).encode()
    assert reader(world)[0].limits().max_cost == 7


def test_the_limits_of_an_open_task_that_redis_has_lost_are_those_of_the_history() -> None:
    world = long_world(messages=3)
    world.server.wipe()
    assert reader(world)[0].limits().max_cost == 7


def test_pending_calls_are_those_of_the_newest_step_alone(world: World) -> None:
    task, histories = reader(world)
    pending = PendingActions(task._engine, TASK)
    assert (pending.unapproved(), pending.changes(), pending.unanswered(), pending.unknown()) == ([], {}, [], [])
    assert histories.steps <= 8


@pytest.mark.parametrize("seq", [1, MESSAGES + 1, 2 * MESSAGES + 1])
def test_the_explanation_of_one_step_reads_the_steps_around_it(world: World, seq: int) -> None:
    task, histories = reader(world)
    found = explanation_of(task, str(seq))
    cost = histories.steps
    whole = explanation_of(task)
    assert (found.status, found.end) == (whole.status, whole.end)
    assert [found.steps[0]] == [one for one in whole.steps if one.seq == seq]
    assert cost <= 3 * BLOCK_STEPS < len(world.history()), "the step, the first, the newest, and those around them"


@pytest.mark.parametrize("block", [7, 2 * MESSAGES + 3])
def test_a_stream_reads_a_part_of_the_steps_at_a_time(
    world: World, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "READ_STEPS", block)
    task, histories = reader(world)
    followed = TaskStream(TASK, task._engine, cast(RedisFollower, None), task.summary, cast(WorkerCheck, None))
    steps = followed.iter_steps(0)
    assert next(steps) == world.history()[0]
    assert histories.steps <= block
    assert [*steps] == world.history()[1:]
    assert list(followed.iter_steps(100)) == world.history()[100:]
    assert list(followed.iter_steps(len(world.history()))) == []
