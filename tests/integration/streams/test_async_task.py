"""Tasks that are followed and waited for in an event loop, on real workers."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import pytest

from roboco import Task, UsageError
from roboco.adapters.redis.keys import Keys
from tests.integration.streams.test_resume import lengthy
from tests.support.journeys import GRAPH, MANUAL, answer
from tests.support.stack import Stack

pytestmark = pytest.mark.workers


async def followed(task: Task, cursor: str | None = None) -> list[str]:
    """What a follower gets that nobody disturbs."""
    return [repr(item) async for item in task.astream(cursor)]


def followed_in_a_thread(task: Task, cursor: str | None = None) -> list[str]:
    """What the other kind of follower gets."""
    return [repr(item) for item in task.stream(cursor)]


async def disturbed(task: Task, seed: int) -> list[str]:
    """What one gets that leaves 50 times, and comes back with its last cursor."""
    dice = random.Random(seed)
    items: list[str] = []
    cursor: str | None = None
    for _ in range(50):
        left = dice.randint(1, 12)
        async for item in task.astream(cursor):
            items.append(repr(item))
            cursor = item.cursor
            left -= 1
            if not left:
                break
    return items + await followed(task, cursor)


def in_a_loop(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 90))


def test_followers_of_both_kinds_get_the_same(stack: Stack) -> None:
    stack.model.script(lengthy)

    async def main() -> None:
        task = await asyncio.to_thread(stack.orchestrator.run, GRAPH.team, GRAPH.prompt)
        once, *often = await asyncio.gather(followed(task), *(disturbed(task, seed) for seed in range(3)))
        assert once == await asyncio.to_thread(followed_in_a_thread, task)
        assert often == [once] * 3
        assert await followed(task) == once, "a replay after the end differs from what was seen live"

    in_a_loop(main())


def test_a_task_that_left_redis_is_followed_from_its_workspace(stack: Stack) -> None:
    stack.model.script(answer)

    async def main() -> None:
        task = await asyncio.to_thread(stack.orchestrator.run, GRAPH.team, GRAPH.prompt)
        cursors = [item.cursor async for item in task.astream()]
        stack.orchestrator._client.delete(*Keys().task_keys(task.task_id))
        for cursor in (None, *cursors[::10], cursors[-1]):
            assert await followed(task, cursor) == await asyncio.to_thread(followed_in_a_thread, task, cursor)

    in_a_loop(main())


def test_waiting_for_a_task_in_an_event_loop(folder_stack: Stack) -> None:
    folder_stack.model.script(answer)

    async def main() -> None:
        orchestrator = folder_stack.orchestrator
        tasks = [await asyncio.to_thread(orchestrator.run, GRAPH.team, GRAPH.prompt) for _ in range(5)]
        for result in await asyncio.gather(*(task.aresult(60) for task in tasks)):
            assert (result.status, result.text) == ("completed", "APPROVED")
        asked = await asyncio.to_thread(orchestrator.run, MANUAL.team, MANUAL.prompt)
        waits = await asked.aresult(60)
        assert (waits.status, waits.text) == ("user_turn", "ann answers: Hello.")
        assert await asked.aresult(60) == await asyncio.to_thread(asked.result, 60) == waits

    in_a_loop(main())


def test_what_is_not_possible_is_said_at_once(folder_stack: Stack) -> None:
    folder_stack.model.script(lengthy)

    async def main() -> None:
        task = await asyncio.to_thread(folder_stack.orchestrator.run, GRAPH.team, GRAPH.prompt)
        with pytest.raises(UsageError, match="cursor 'x' is not one of a stream item"):
            task.astream("x")
        with pytest.raises(TimeoutError, match=rf"task '{task.task_id}' is still open after 0\.01 s"):
            await task.aresult(0.01)
        assert (await task.aresult(60)).status == "completed"

    in_a_loop(main())
