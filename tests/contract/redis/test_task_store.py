"""The task store on Redis: what the state machine does not see, such as the bytes and the lives of keys."""

from typing import Any

import pytest

from roboco.domain.history.part import ToolOutcome, ToolResult
from roboco.domain.history.state import fold
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import AnyEvent, StepEnded, UserMessageAdded
from roboco.domain.stream.event_file import with_step
from roboco.ports import task_store as ports
from roboco.ports.snapshot import Decision, Phase
from roboco.ports.task_store import Commit
from roboco.redis import task_store as redis_task_store
from tests.contract.redis.chunk_emission import emit_chunk
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import TaskUnderTest
from tests.contract.samples import NOON, TASK, USAGE, make_chain, status_event, step_after, text_chunk
from tests.support.memory_ports import task_store as memory_task_store

TURN = Decision(Phase.TURN, TaskStatus.RUNNING, agent="writer")
RESULT = ToolOutcome(result=ToolResult(tool_call_id="tc_1", result={"a": [1, "ü"]}))


@pytest.mark.parametrize(("limit", "kept"), [(8, [4, 5, 6, 7, 8, 9, 10, 11]), (7, [])])
def test_a_commit_keeps_the_chunks_of_its_attempt_if_they_are_few(
    task: TaskUnderTest, monkeypatch: pytest.MonkeyPatch, limit: int, kept: list[int]
) -> None:
    monkeypatch.setattr(ports, "MAX_LOGGED_CHUNKS", limit)
    task.create()
    for chunks in (3, 8):
        task.record_decision()
        claim = task.claim()
        for number in range(1, chunks + 1):
            emit_chunk(task.leases, claim, number, text_chunk(str(number)), USAGE)
        assert task.commit(chunks=chunks)
    assert [seq for seq, _, _ in task.chunk_log()] == kept
    assert task.snapshot.logs.chunks == 11


def test_the_tail_is_bounded_in_bytes(task: TaskUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (memory_task_store, redis_task_store):
        monkeypatch.setattr(module, "MAX_TAIL_BYTES", 4000)
    task.create(30)
    for _ in range(20):
        kept = sum(len(step.line().encode()) for step in task.snapshot.steps.tail)
        assert 2000 < kept <= 4000
        task.record_decision()
        task.commit()
        assert list(task.snapshot.steps.tail) == task.steps[-len(task.snapshot.steps.tail) :]
    task.record_decision()
    task.commit(text="long " * 1000)
    assert list(task.snapshot.steps.tail) == task.steps[-1:]
    task.record_decision()
    task.commit()
    assert list(task.snapshot.steps.tail) == task.steps[-1:]


def test_large_steps_are_loaded_and_do_not_fill_redis(redis_task: TaskOnRedis) -> None:
    task, text = redis_task, "\x01" * 40_000  # each character has six bytes in JSON
    task.steps = [first] = [step_after([], text)]
    events: list[AnyEvent] = [
        UserMessageAdded(task_id=TASK, timestamp=NOON, step_id=first.step_id, text=text),
        StepEnded(task_id=TASK, timestamp=NOON, step=first),
    ]
    assert task.store.create(TASK, task.steps, fold(task.steps), events)
    task.record_decision()
    claimed = task.claim().snapshot
    assert (claimed.steps.first, claimed.steps.tail, task.snapshot.steps.tail) == (first, (first,), (first,))
    client: Any = task.client
    assert sum(client.memory_usage(name, samples=0) for name in task.names() if TASK in name) < 8192
    message, end = (with_step(record, first) for record in task.events())
    assert (message["text"], end["step"]) == (text, first.model_dump(mode="json"))
    assert task.commit()
    assert (task.snapshot.steps.first, task.snapshot.steps.tail) == (first, (task.steps[1],))


def use_every_key(task: TaskOnRedis) -> None:
    """Run commands that create every key of a task."""
    task.create(1, status_event("a"))
    task.record_decision()
    emit_chunk(task.leases, task.claim(), 1, text_chunk("c"), USAGE)
    task.commit()
    task.record_decision(Phase.TOOLS)
    task.leases.claim_call(task.tool_assignment("tc_1"), "me")
    task.leases.claim_call(task.tool_assignment("tc_2"), "me")
    task.leases.record_outcome(task.tool_assignment("tc_2"), "me", RESULT, status_event("b"))
    task.leases.restart_turn(TASK, task.snapshot.position.epoch, status_event("c"))
    task.record_decision(Phase.TURN)
    task.claim()
    task.store.add_items(TASK, ["one"])


def test_all_keys_of_an_expired_task_have_a_time_to_live(redis_task: TaskOnRedis) -> None:
    use_every_key(redis_task)
    redis_task.record_decision(Phase.END, status_event("end"))
    assert redis_task.store.expire(TASK, 100, redis_task.snapshot.logs.generation)
    lives: dict[str, Any] = {name: redis_task.client.ttl(name) for name in redis_task.names()}
    assert {name: left for name, left in lives.items() if not 0 < left <= 100} == {}
    redis_task.store.expire(TASK, 0, redis_task.snapshot.logs.generation)
    assert [name for name in redis_task.names() if "lease" not in name] == []


def test_an_erased_task_is_gone_and_is_not_created_again(task: TaskUnderTest) -> None:
    task.create(2, status_event("a"))
    epoch = task.snapshot.position.epoch
    task.store.add_items(TASK, ["item1"])
    task.store.erase(TASK, 100)
    task.store.erase(TASK, 100)
    steps = make_chain(3)
    assert task.store.load(TASK, 10) is None
    assert task.event_log() == []
    assert not task.store.create(TASK, steps, fold(steps), [status_event("b")])
    assert task.store.record_decision(TASK, epoch, TURN, [status_event("b")]) is None
    assert not task.store.commit(TASK, epoch, Commit(steps[2], fold(steps), [status_event("b")]))
    assert task.store.load(TASK, 10) is None
    assert task.event_log() == []


def test_redis_forgets_an_erased_task(redis_task: TaskOnRedis) -> None:
    redis_task.create(2, status_event("a"))
    redis_task.store.erase(TASK, 100)
    left = list(redis_task.client.scan_iter(f"{redis_task.keys.prefix}:*{TASK}*"))
    assert [key.rpartition(":")[2] for key in left] == ["state"]
    assert redis_task.client.hgetall(left[0]) == {"erased": "1"}
    assert 0 < redis_task.client.ttl(left[0]) <= 100


@pytest.mark.parametrize("ended", [False, True])
def test_an_inbox_without_an_open_task_expires(redis_task: TaskOnRedis, ended: bool) -> None:
    if ended:
        redis_task.create()
        redis_task.record_decision(Phase.END)
    redis_task.store.add_items(TASK, ["late"])
    key = redis_task.keys.inbox(TASK)
    assert redis_task.client.ttl(key) > 0
    redis_task.client.delete(redis_task.keys.state(TASK))
    redis_task.create()
    assert redis_task.client.ttl(key) == -1
    redis_task.client.expire(key, 100)
    redis_task.store.add_items(TASK, ["more"])
    assert redis_task.client.ttl(key) == -1
