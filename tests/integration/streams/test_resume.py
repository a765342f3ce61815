"""A follower that disconnects at 50 random moments collects what an undisturbed one collects."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from roboco import Task
from tests.support.journeys import GRAPH, answer
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack

pytestmark = pytest.mark.workers


def lengthy(request: Request) -> Reply:
    words = [f"{word} {number}, " for number in range(40) for word in ("wave", "foam", "wind")]
    return Reply(chunks=[*words, answer(request).text], interval=0.002)


def undisturbed(task: Task) -> list[str]:
    return [collected(item) for item in task.stream()]


def disturbed(task: Task, seed: int, times: int) -> list[str]:
    dice = random.Random(seed)
    items: list[str] = []
    cursor: str | None = None
    for _ in range(times):
        for _, item in zip(range(dice.randint(1, 12)), task.stream(cursor), strict=False):
            items.append(collected(item))
            cursor = item.cursor
    return items + [collected(item) for item in task.stream(cursor)]


def collected(item: object) -> str:
    return repr(item)


def test_fifty_disconnects_lose_and_repeat_nothing(folder_stack: Stack) -> None:
    folder_stack.model.script(lengthy)
    task = folder_stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
    with ThreadPoolExecutor(4) as threads:
        whole = threads.submit(undisturbed, task)
        parts = [threads.submit(disturbed, task, seed, 50) for seed in range(3)]
        expected = whole.result(60)
        for part in parts:
            assert part.result(60) == expected
    assert undisturbed(task) == expected, "a replay after the end differs from what was seen live"
