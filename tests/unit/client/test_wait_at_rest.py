"""Waiting for a task: one look for each event that may settle it, until the workspace of an ended one is complete."""

import time
from collections.abc import Generator
from typing import Any, cast

import pytest

from roboco.adapters.redis.stream.follower import RedisFollower
from roboco.adapters.redis.stream.position import Record
from roboco.client.stream import TaskStream
from roboco.client.worker_check import WorkerCheck
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.engine.intake.unattended import why_unattended
from tests.contract.samples import NOON
from tests.support.memory_ports.model import said
from tests.support.memory_ports.world import TASK, World, given

RUNNING, WAITS, DONE = TaskStatus.RUNNING, TaskStatus.USER_TURN, TaskStatus.COMPLETED


class Told:
    """Stands for a follower: these events, and the time when nothing more comes."""

    def __init__(self, *kinds: str | None) -> None:
        self._kinds = kinds
        self.closed = False

    def changes(self, task_id: str, until: float) -> Generator[Record | None]:
        """The events."""
        try:
            for kind in self._kinds:
                yield None if kind is None else {"type": kind}
            time.sleep(max(0.0, until - time.monotonic()))
            yield None
        finally:
            self.closed = True


def waited(told: Told, *found: TaskStatus, seconds: float = 60.0) -> tuple[TaskStatus, int]:
    """With what the waiting ended, and after how many looks, which find these one after the other."""
    looks = iter([*found, *[found[-1]] * 100])
    seen: list[TaskStatus] = []

    def look() -> TaskSummary:
        seen.append(next(looks))
        return TaskSummary(task_id=TASK, team="t", status=seen[-1], steps=1, created_at=NOON, updated_at=NOON)

    follower: Any = told
    engine = World(given(lambda request: said("x"))).engine
    worker_check = WorkerCheck(TASK, lambda: why_unattended(engine, "file:///w", TASK))
    following = TaskStream(TASK, engine, cast(RedisFollower, follower), look, worker_check)
    status = following.wait_at_rest(time.monotonic() + seconds).status
    return status, len(seen)


@pytest.mark.parametrize("settled", [WAITS, DONE])
def test_a_settled_task_is_not_waited_for(settled: TaskStatus) -> None:
    told = Told()
    assert waited(told, settled) == (settled, 1)


def test_talk_is_not_looked_at() -> None:
    talk = ("event_agent_select", "event_step_end", "event_tool_call", "event_tool_result", "event_agent_handoff")
    told = Told(None, *talk * 50, "event_status")
    assert waited(told, RUNNING, RUNNING, WAITS) == (WAITS, 3)
    assert told.closed


@pytest.mark.parametrize("kind", ["event_status", "event_stream_reset", "event_of_a_newer_release", None, ["nonsense"]])
def test_what_may_settle_it_is_looked_at_once(kind: str | None) -> None:
    assert waited(Told(None, kind, kind, kind), RUNNING, RUNNING, RUNNING, WAITS) == (WAITS, 4)


def test_an_ended_task_is_looked_at_until_its_workspace_is_complete() -> None:
    assert waited(Told(None, "event_task_end"), *[RUNNING] * 7, DONE) == (DONE, 8)


def test_one_that_goes_on_is_given_as_it_stands_when_the_time_is_over() -> None:
    assert waited(Told(), RUNNING, seconds=0.0) == (RUNNING, 1)
    assert waited(Told(None, "event_step_end"), RUNNING, seconds=0.05)[0] is RUNNING
    assert waited(Told(None, "event_task_end"), RUNNING, seconds=0.05)[0] is RUNNING
