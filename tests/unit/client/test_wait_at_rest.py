"""Waiting for a task: each event that may end the wait causes one read of the summary."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from roboco.client.async_stream import AsyncTaskStream
from roboco.client.stream import TaskStream, WorkerCheck
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.engine.accept.wait_cause import current_cause
from roboco.redis.stream.position import Record
from tests.contract.samples import NOON
from tests.support.memory_ports.model import says
from tests.support.memory_ports.world import TASK, World, world_parts

RUNNING, WAITS, DONE = TaskStatus.RUNNING, TaskStatus.USER_TURN, TaskStatus.COMPLETED


class ScriptedFollower:
    """A follower that yields these events, and then nothing."""

    def __init__(self, *kinds: str | None) -> None:
        self._kinds = kinds
        self.closed = False

    async def changes(self, task_id: str) -> AsyncGenerator[Record | None]:
        """Yield the events."""
        try:
            for kind in self._kinds:
                yield None if kind is None else {"type": kind}
            await asyncio.Event().wait()
        finally:
            self.closed = True


def wait_at_rest(
    scripted: ScriptedFollower, *found: TaskStatus, seconds: float = 60.0
) -> tuple[TaskStatus | None, int]:
    """Return the status that ends the wait, and the number of reads, which find these statuses in turn.

    The status is None if the wait takes longer.
    """
    statuses = iter([*found, *[found[-1]] * 100])
    seen: list[TaskStatus] = []

    def read_summary() -> TaskSummary:
        seen.append(next(statuses))
        return TaskSummary(task_id=TASK, team="t", status=seen[-1], steps=1, created_at=NOON, updated_at=NOON)

    follower: Any = scripted
    engine = World(world_parts(lambda request: says("x"))).engine
    worker_check = WorkerCheck(TASK, lambda: current_cause(engine, "file:///w", TASK))
    following = AsyncTaskStream(TaskStream(TASK, engine, follower, read_summary, worker_check), follower)

    async def wait() -> TaskStatus:
        async with asyncio.timeout(seconds):
            return (await following.wait_at_rest()).status

    try:
        return asyncio.run(wait()), len(seen)
    except TimeoutError:
        return None, len(seen)


def test_progress_events_cause_no_read() -> None:
    progress = ("event_agent_select", "event_step_end", "event_tool_call", "event_tool_result", "event_agent_handoff")
    follower = ScriptedFollower(None, *progress * 50, "event_status")
    assert wait_at_rest(follower, RUNNING, WAITS) == (WAITS, 2)
    assert follower.closed


@pytest.mark.parametrize("kind", ["event_status", "event_stream_reset", "event_of_a_newer_release", None, ["nonsense"]])
def test_an_event_that_may_end_the_wait_causes_one_read(kind: str | None) -> None:
    assert wait_at_rest(ScriptedFollower(None, kind, kind, kind), RUNNING, RUNNING, RUNNING, WAITS) == (WAITS, 4)


def test_an_ended_task_is_read_until_its_workspace_is_complete() -> None:
    assert wait_at_rest(ScriptedFollower(None, "event_task_end"), *[RUNNING] * 7, DONE) == (DONE, 8)
