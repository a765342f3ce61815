"""A follower that disconnects 50 times at random receives the same items as one that stays."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from roboco import StreamItem, Task
from tests.support.journeys import GRAPH, answer
from tests.support.received_items import comparable
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack

pytestmark = pytest.mark.workers


def long_answer(request: Request) -> Reply:
    """Return the reply of a journey after 120 words."""
    words = [f"{word} {number}, " for number in range(40) for word in ("wave", "foam", "wind")]
    return Reply(chunks=[*words, answer(request).text], interval=0.002)


def follow_to_end(task: Task) -> list[str]:
    """Return the items of a follower that stays connected."""
    return comparable(task.stream())


def follow_with_disconnects(task: Task, seed: int, times: int) -> list[str]:
    """Return the items of a follower that disconnects this many times and resumes after its last cursor."""
    dice = random.Random(seed)
    items: list[StreamItem] = []
    cursor: str | None = None
    for _ in range(times):
        for _, item in zip(range(dice.randint(1, 12)), task.stream(cursor), strict=False):
            items.append(item)
            cursor = item.cursor
    return comparable([*items, *task.stream(cursor)])


def test_fifty_disconnects_lose_and_repeat_nothing(shared_stack: Stack) -> None:
    shared_stack.model.script(long_answer)
    task = shared_stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
    with ThreadPoolExecutor(4) as threads:
        whole = threads.submit(follow_to_end, task)
        parts = [threads.submit(follow_with_disconnects, task, seed, 50) for seed in range(3)]
        expected = whole.result(60)
        for part in parts:
            assert part.result(60) == expected
    assert follow_to_end(task) == expected, "a follower after the end receives the same items"
