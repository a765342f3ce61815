"""Tasks that a client follows and awaits in an event loop, on real workers."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import pytest

from roboco import StreamItem, Task
from roboco.redis.keys import Keys
from tests.integration.streams.test_resume import long_answer
from tests.support.journeys import GRAPH, MANUAL, answer
from tests.support.received_items import comparable
from tests.support.stack import Stack

pytestmark = pytest.mark.workers


async def follow_to_end(task: Task, cursor: str | None = None) -> list[str]:
    """Return the items that a follower in an event loop receives."""
    return comparable([item async for item in task.astream(cursor)])


def follow_in_a_thread(task: Task, cursor: str | None = None) -> list[str]:
    """Return the items that a follower in a thread receives."""
    return comparable(task.stream(cursor))


async def follow_with_disconnects(task: Task, seed: int) -> list[str]:
    """Return the items of a follower that disconnects 50 times and resumes after its last cursor."""
    dice = random.Random(seed)
    items: list[StreamItem] = []
    cursor: str | None = None
    for _ in range(50):
        left = dice.randint(1, 12)
        async for item in task.astream(cursor):
            items.append(item)
            cursor = item.cursor
            left -= 1
            if not left:
                break
    return comparable([*items, *[item async for item in task.astream(cursor)]])


def run_in_a_loop(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 90))


def test_followers_in_threads_and_event_loops_receive_the_same_items(stack: Stack) -> None:
    stack.model.script(long_answer)

    async def main() -> None:
        task = await asyncio.to_thread(stack.orchestrator.run, GRAPH.team, GRAPH.prompt)
        once, *often = await asyncio.gather(
            follow_to_end(task), *(follow_with_disconnects(task, seed) for seed in range(3))
        )
        assert once == await asyncio.to_thread(follow_in_a_thread, task)
        assert often == [once] * 3
        assert await follow_to_end(task) == once, "a follower after the end receives the same items"

    run_in_a_loop(main())


def test_a_task_that_left_redis_is_followed_from_its_workspace(stack: Stack) -> None:
    stack.model.script(answer)

    async def main() -> None:
        task = await asyncio.to_thread(stack.orchestrator.run, GRAPH.team, GRAPH.prompt)
        cursors = [item.cursor async for item in task.astream()]
        stack.orchestrator._client.delete(*Keys().task_keys(task.task_id))
        for cursor in (None, *cursors[::10], cursors[-1]):
            assert await follow_to_end(task, cursor) == await asyncio.to_thread(follow_in_a_thread, task, cursor)

    run_in_a_loop(main())


def test_aresult_returns_once_a_task_ends_or_waits_for_its_user(shared_stack: Stack) -> None:
    shared_stack.model.script(answer)

    async def main() -> None:
        orchestrator = shared_stack.orchestrator
        tasks = [await asyncio.to_thread(orchestrator.run, GRAPH.team, GRAPH.prompt) for _ in range(5)]
        for result in await asyncio.gather(*(task.aresult(60) for task in tasks)):
            assert (result.status, result.text) == ("completed", "APPROVED")
        waiting = await asyncio.to_thread(orchestrator.run, MANUAL.team, MANUAL.prompt)
        result = await waiting.aresult(60)
        assert (result.status, result.text) == ("user_turn", "ann answers: Hello.")
        assert await waiting.aresult(60) == await asyncio.to_thread(waiting.result, 60) == result

    run_in_a_loop(main())
