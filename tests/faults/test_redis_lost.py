"""Redis emptied, restarted or refusing writes during a run: the task continues from its workspace."""

import threading
import time
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import redis

from roboco.errors import Overloaded
from roboco.lab.transcript import Transcript
from tests.support.journeys import GRAPH, follow
from tests.support.journeys import answer_slowly as answer_slowly_by
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack

pytestmark = pytest.mark.workers
REFUSAL_SECONDS = 4.0
"""Longer than the two seconds for which a client repeats a refused command."""


answer_slowly = partial(answer_slowly_by, interval=0.1)


@pytest.mark.parametrize("words", [pytest.param(1, marks=pytest.mark.nightly), 12])
def test_a_task_survives_flushall_during_a_turn(folder_stack: Stack, words: int) -> None:
    """Redis is emptied once the follower has these words, of 21 before the last reply, which waits for that."""
    emptied = threading.Event()

    def answer_after_loss(request: Request) -> Reply:
        reply = answer_slowly(request)
        return replace(reply, held_until=emptied) if reply.text == "APPROVED" else reply

    folder_stack.model.script(answer_after_loss)
    task = folder_stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
    transcript = Transcript()
    for item in task.stream():
        transcript.take(item)
        if not emptied.is_set() and len(" ".join(transcript.texts.values()).split()) >= words:
            with redis.Redis.from_url(folder_stack.valkey.url) as client:
                client.flushall()
            emptied.set()
    assert task.result(60).status == "completed"
    assert "event_stream_reset" in transcript.types
    GRAPH.check(task, transcript)


@pytest.mark.parametrize(
    "keep", [pytest.param(True, marks=pytest.mark.nightly), False], ids=["with its data", "without its data"]
)
def test_a_task_survives_a_restart_of_redis(folder_stack: Stack, keep: bool) -> None:
    """Workers that end because of the loss are restarted, as a process manager does."""
    folder_stack.model.script(answer_slowly)
    task = folder_stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
    transcript = follow(task, meanwhile=lambda: folder_stack.restart_redis(keep))
    assert task.result(60).status == "completed"
    GRAPH.check(task, transcript)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("refuse", "accept"),
    [
        pytest.param("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", marks=pytest.mark.nightly),
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
    ],
    ids=["while it is a replica", "while its memory is full"],
)
def test_a_task_waits_for_a_redis_that_refuses_writes(folder_stack: Stack, refuse: str, accept: str) -> None:
    """No worker ends: they retry until a failover is over, or the limit is raised."""
    folder_stack.model.script(answer_slowly)
    pids = {name: worker.pid for name, worker in folder_stack.workers.items()}
    task = folder_stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
    with redis.Redis.from_url(folder_stack.valkey.url) as client:
        admin: Any = client

        def refuse_for_a_while() -> None:
            admin.execute_command(*refuse.split())
            time.sleep(REFUSAL_SECONDS)
            admin.execute_command(*accept.split())

        transcript = follow(task, refuse_for_a_while)
    assert task.result(60).status == "completed"
    GRAPH.check(task, transcript)
    assert pids == {name: worker.pid for name, worker in folder_stack.workers.items()}
    assert all(worker.alive() for worker in folder_stack.workers.values())


def test_a_stop_ends_tasks_although_the_memory_of_redis_is_full(folder_stack: Stack) -> None:
    """One task streams, and one starts in a year."""
    began, never = threading.Event(), threading.Event()

    def answer_never(request: Request) -> Reply:
        began.set()
        return Reply(text="a b c", held_until=never)

    folder_stack.model.script(answer_never)
    tasks = [folder_stack.orchestrator.run(GRAPH.team, GRAPH.prompt, countdown=later) for later in (None, 31_536_000)]
    assert began.wait(60)
    with redis.Redis.from_url(folder_stack.valkey.url) as client:
        client.config_set("maxmemory", 1)
        try:
            with pytest.raises(Overloaded, match="of its memory"):
                folder_stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
            for task in tasks:
                task.stop("enough")
            for task in tasks:
                assert task.result(60).status == "cancelled"
        finally:
            client.config_set("maxmemory", 0)
            never.set()
