"""Followers and waits, in threads and in event loops, on real workers."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import pytest

from roboco import StreamItem, Task
from roboco.domain.stream.item import StepFinal
from roboco.redis.keys import Keys
from tests.support.journeys import GRAPH, MANUAL, answer
from tests.support.received_items import comparable
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack

pytestmark = pytest.mark.workers


def long_answer(request: Request) -> Reply:
    """Return the reply of a journey after 120 words."""
    words = [f"{word} {number}, " for number in range(40) for word in ("wave", "foam", "wind")]
    return Reply(chunks=[*words, answer(request).text], interval=0.002)


async def follow_to_end(task: Task, cursor: str | None = None) -> list[str]:
    """Return the items that a follower in an event loop receives."""
    return comparable([item async for item in task.astream(cursor)])


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


def follow_in_a_thread_with_disconnects(task: Task) -> list[str]:
    """Do the same in a thread."""
    dice = random.Random(3)
    items: list[StreamItem] = []
    for _ in range(50):
        cursor = items[-1].cursor if items else None
        items += [item for _, item in zip(range(dice.randint(1, 12)), task.stream(cursor), strict=False)]
    return comparable([*items, *task.stream(items[-1].cursor)])


def run_in_a_loop(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 90))


def test_fifty_disconnects_lose_and_repeat_nothing_in_threads_and_event_loops(stack: Stack) -> None:
    stack.model.script(long_answer)

    async def main() -> None:
        task = await asyncio.to_thread(stack.orchestrator.run, GRAPH.team, GRAPH.prompt)
        once, in_thread, *in_loop = await asyncio.gather(
            follow_to_end(task),
            asyncio.to_thread(follow_in_a_thread_with_disconnects, task),
            *(follow_with_disconnects(task, seed) for seed in range(2)),
        )
        assert in_thread == once
        assert in_loop == [once] * 2
        assert await follow_to_end(task) == once, "a follower after the end receives the same items"

    run_in_a_loop(main())


def test_a_task_that_left_redis_is_followed_from_its_workspace(stack: Stack) -> None:
    stack.model.script(answer)
    task = stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
    cursors = [item.cursor for item in task.stream()]
    task.result(60)
    stack.orchestrator._client.delete(*Keys().task_keys(task.task_id))
    finals = [step.seq for step in task.history()]
    assert [item.data.step.seq for item in task.stream() if isinstance(item.data, StepFinal)] == finals
    for cursor in (cursors[0], cursors[len(cursors) // 2]):
        assert [item.type for item in task.stream(cursor)][-1] == "event_task_end"
    assert list(task.stream(cursors[-1])) == []


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
        assert await asyncio.to_thread(waiting.result, 60) == result

    run_in_a_loop(main())
