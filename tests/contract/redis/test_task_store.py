"""The task store: the state of open tasks."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from roboco.domain.history.part import ToolResult
from roboco.domain.history.state import fold
from roboco.domain.history.step import USER
from roboco.domain.history.tool_outcome import ToolOutcome
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import AnyEvent, StepEnded, UserMessageAdded
from roboco.domain.stream.event_file import with_step
from roboco.errors import TransientError
from roboco.ports import task_store as ports
from roboco.ports.task_store import CallState, Commit, Decision, Phase, Snapshot
from roboco.redis import task_store as redis_task_store
from tests.contract.redis.chunk_emission import emit_chunk
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import TaskUnderTest
from tests.contract.samples import NOON, TASK, USAGE, make_chain, status_event, step_after, text_chunk
from tests.support.memory_ports import task_store as memory_task_store

TURN = Decision(Phase.TURN, TaskStatus.RUNNING, agent="writer")
RESULT = ToolOutcome(result=ToolResult(tool_call_id="tc_1", result={"a": [1, "ü"]}))


def test_commands_for_an_unknown_task_change_nothing(task: TaskUnderTest) -> None:
    assert task.store.load(TASK, 10) is None
    assert task.store.record_decision(TASK, 1, TURN, [status_event("a")]) is None
    assert not task.store.commit(TASK, 1, Commit(make_chain(1)[0], fold(make_chain(1)), [status_event("a")]))
    task.store.expire(TASK, 10, "0")
    assert task.store.load(TASK, 10) is None
    assert task.event_log() == []


@pytest.mark.parametrize(("count", "status"), [(1, TaskStatus.QUEUED), (7, TaskStatus.RUNNING)])
def test_a_new_task_is_undecided(task: TaskUnderTest, count: int, status: TaskStatus) -> None:
    task.create(count, status_event("a"), status_event("b"))
    now = task.snapshot
    assert (now.position.seq, now.position.phase, now.position.status, now.attempt.number) == (
        count,
        Phase.UNDECIDED,
        status,
        1,
    )
    assert (now.position.reason, now.position.agent, now.position.routing, now.position.redeliveries) == ("", "", {}, 0)
    assert (now.attempt.claimed, now.attempt.lease_left, now.item_ids, now.calls) == (False, 0.0, (), {})
    assert (now.steps.first, list(now.steps.tail), now.state) == (task.steps[0], task.steps, fold(task.steps))
    assert now.position.epoch > 0
    assert task.event_log() == [(1, 0, "a"), (2, 0, "b")]
    assert len(task.generations()) == 1


def test_an_existing_task_is_not_created_again(task: TaskUnderTest) -> None:
    task.create(3, status_event("a"))
    before = (task.snapshot, task.event_log(), task.generations())
    steps = make_chain(2)
    assert not task.store.create(TASK, steps, fold(steps), [status_event("b")])
    assert (task.snapshot, task.event_log(), task.generations()) == before


def create_with_turn(task: TaskUnderTest, steps: int = 1) -> int | None:
    """Create the task with a turn as its first decision, with one event of each."""
    chain = make_chain(steps)
    return task.store.create_with_decision(TASK, chain, fold(chain), [status_event("a")], TURN, [status_event("b")])


def test_a_task_is_created_with_its_first_decision(task: TaskUnderTest) -> None:
    epoch = create_with_turn(task)
    now = task.snapshot
    expected = Snapshot.new(now.steps.tail, now.state).after_decision(now.position.epoch, TURN)
    position = replace(expected.position, dispatched_at=now.position.dispatched_at)
    logs = replace(
        expected.logs, generation=now.logs.generation, events=now.logs.events, event_bytes=now.logs.event_bytes
    )
    assert now == replace(expected, position=position, logs=logs)
    assert (epoch, now.position.phase, now.position.agent) == (now.position.epoch, Phase.TURN, "writer")
    assert task.event_log() == [(1, 0, "a"), (2, 0, "b")]
    assert create_with_turn(task, 2) is None
    assert (task.snapshot, len(task.event_log())) == (now, 2), "an existing task does not change"


def test_a_task_is_created_without_its_decision_if_an_item_waits(task: TaskUnderTest) -> None:
    task.inbox.add(TASK, ["one"])
    assert create_with_turn(task) is None
    assert (task.snapshot.position.phase, task.snapshot.item_ids) == (Phase.UNDECIDED, ("one",))
    assert task.event_log() == [(1, 0, "a")]


def test_one_of_many_creators_of_a_task_wins(redis_task: TaskOnRedis) -> None:
    barrier = threading.Barrier(8)

    def create(_: int) -> bool:
        barrier.wait()
        steps = make_chain(1)
        return redis_task.store.create(TASK, steps, fold(steps), [status_event("a")])

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(create, range(8))).count(True) == 1
    assert redis_task.event_log() == [(1, 0, "a")]


def test_the_newest_steps_are_loaded(task: TaskUnderTest) -> None:
    task.create(6)
    for tail in (1, 4, 6, 100):
        snapshot = task.store.load(TASK, tail)
        assert snapshot is not None
        assert list(snapshot.steps.tail) == task.steps[-tail:]
        assert snapshot.steps.first == task.steps[0]


def test_the_store_keeps_the_newest_steps(redis_task: TaskOnRedis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_task_store, "MAX_TAIL_STEPS", 5)
    redis_task.create(8)
    assert list(redis_task.snapshot.steps.tail) == redis_task.steps[-5:]
    for _ in range(3):
        redis_task.record_decision()
        assert redis_task.commit()
    assert list(redis_task.snapshot.steps.tail) == redis_task.steps[-5:]
    assert redis_task.snapshot.steps.first == redis_task.steps[0]


def test_a_decision_is_recorded(task: TaskUnderTest) -> None:
    task.create(2, status_event("a"))
    before = task.snapshot
    decision = Decision(Phase.WAIT, TaskStatus.USER_TURN, "für dich", "writer", {"rule": "ü", "candidates": ["a", "b"]})
    epoch = task.store.record_decision(TASK, before.position.epoch, decision, [status_event("b"), status_event("c")])
    now = task.snapshot
    assert epoch == now.position.epoch
    assert now.position.epoch > before.position.epoch
    assert (now.position.phase, now.position.status, now.position.reason, now.position.agent) == (
        Phase.WAIT,
        TaskStatus.USER_TURN,
        "für dich",
        "writer",
    )
    assert now.position.routing == {"rule": "ü", "candidates": ["a", "b"]}
    assert (now.position.seq, now.steps.tail, now.state) == (before.position.seq, before.steps.tail, before.state)
    assert task.event_log() == [(1, 0, "a"), (2, 0, "b"), (3, 0, "c")]


def test_a_decision_with_another_fence_is_refused(task: TaskUnderTest) -> None:
    task.create()
    old = task.snapshot.position.epoch
    task.record_decision(Phase.TURN, status_event("a"))
    before = task.snapshot
    for epoch in (old, before.position.epoch + 1, 0):
        assert (
            task.store.record_decision(TASK, epoch, Decision(Phase.END, TaskStatus.FAILED), [status_event("b")]) is None
        )
    assert task.snapshot == before
    assert task.event_log() == [(1, 0, "a")]


def test_a_decision_is_refused_if_it_has_not_seen_a_new_item(task: TaskUnderTest) -> None:
    task.create()
    task.inbox.add(TASK, ["one", "two"])
    before = task.snapshot
    late, complete = (
        replace(TURN, seen_item_ids=frozenset({"one"})),
        replace(TURN, seen_item_ids=frozenset({"one", "two", "gone"})),
    )
    assert task.store.record_decision(TASK, before.position.epoch, late, [status_event("void")]) is None
    assert task.snapshot == before
    assert (
        task.store.record_decision(TASK, before.position.epoch, complete, [status_event("a")])
        == task.snapshot.position.epoch
    )
    task.inbox.remove(TASK, "one")
    task.inbox.add(TASK, ["three"])
    assert task.store.record_decision(TASK, task.snapshot.position.epoch, complete, [status_event("void")]) is None, (
        "the number of items is the same, but one is another item"
    )
    task.inbox.remove(TASK, "three")
    assert (
        task.store.record_decision(TASK, task.snapshot.position.epoch, complete, [status_event("b")])
        == task.snapshot.position.epoch
    )
    assert (
        task.store.record_decision(
            TASK, task.snapshot.position.epoch, replace(TURN, seen_item_ids=frozenset()), [status_event("void")]
        )
        is None
    )
    assert (
        task.store.record_decision(TASK, task.snapshot.position.epoch, TURN, [status_event("c")])
        == task.snapshot.position.epoch
    )
    assert task.event_log() == [(1, 0, "a"), (2, 0, "b"), (3, 0, "c")]


def test_a_decision_for_another_instance_of_redis_is_refused(task: TaskUnderTest) -> None:
    task.create()
    before = task.snapshot
    assert (
        task.store.record_decision(
            TASK, before.position.epoch, replace(TURN, instance_id="0123456789abcdef"), [status_event("void")]
        )
        is None
    )
    assert task.snapshot == before
    here = replace(TURN, instance_id=task.schedule.instance_id())
    assert (
        task.store.record_decision(TASK, before.position.epoch, here, [status_event("a")])
        == task.snapshot.position.epoch
    )
    assert task.event_log() == [(1, 0, "a")]


def test_the_fence_of_a_new_task_starts_above_the_given_epoch(task: TaskUnderTest) -> None:
    task.create()
    ahead = task.snapshot.position.epoch + 1_000_000
    task.wipe()
    steps = make_chain(1)
    task.store.create(TASK, steps, fold(steps), [], above_epoch=ahead)
    assert task.snapshot.position.epoch == ahead + 1


@pytest.mark.parametrize("phase", [Phase.UNDECIDED, Phase.WAIT])
def test_a_reset_of_the_logs_moves_the_fence_while_no_work_is_pending(task: TaskUnderTest, phase: Phase) -> None:
    task.create()
    if phase is Phase.WAIT:
        task.record_decision(Phase.WAIT)
    before = task.snapshot.position.epoch
    assert task.store.reset_logs(TASK, before, [status_event("again")])
    assert task.snapshot.position.epoch > before
    assert task.store.record_decision(TASK, before, TURN, [status_event("void")]) is None
    assert task.event_log() == [(1, 0, "again")]


def test_a_reset_of_the_logs_of_an_ended_task_keeps_its_fence(task: TaskUnderTest) -> None:
    task.create(1, status_event("a"))
    task.record_decision(Phase.END, status_event("end"))
    before = task.snapshot
    assert task.store.reset_logs(TASK, before.position.epoch, [status_event("again"), status_event("end")])
    now = task.snapshot
    assert (now.position.epoch, now.position.phase, now.logs.events) == (before.position.epoch, Phase.END, 2)
    assert now.logs.generation != before.logs.generation
    assert task.event_log() == [(1, 0, "again"), (2, 0, "end")]


def test_one_of_many_decisions_wins(redis_task: TaskOnRedis) -> None:
    redis_task.create()
    barrier = threading.Barrier(8)
    epoch = redis_task.snapshot.position.epoch

    def record_decision(number: int) -> int | None:
        barrier.wait()
        return redis_task.store.record_decision(
            TASK, epoch, TURN, [status_event(str(number)), status_event(str(number))]
        )

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(record_decision, range(8)))
    [winner] = [number for number, found in enumerate(won) if found is not None]
    assert redis_task.snapshot.position.epoch == won[winner]
    assert redis_task.event_log() == [(1, 0, str(winner)), (2, 0, str(winner))]


def test_a_decision_clears_attempts_claims_and_outcomes(task: TaskUnderTest) -> None:
    task.create()
    task.record_decision()
    task.leases.restart_turn(TASK, task.snapshot.position.epoch, status_event("again"))
    task.leases.count_redelivery(TASK, task.snapshot.position.epoch, False)
    task.claim()
    task.record_decision()
    now = task.snapshot
    assert (now.attempt.number, now.attempt.claimed, now.attempt.lease_left, now.position.redeliveries) == (
        1,
        False,
        0.0,
        0,
    )
    task.record_decision(Phase.TOOLS)
    assert task.leases.record_outcome(task.tool_assignment(), None, RESULT, status_event("result")) == 1
    task.record_decision(Phase.TURN)
    assert task.snapshot.calls == {}
    task.record_decision(Phase.TOOLS)
    assert task.leases.claim_call(task.tool_assignment(), "me")


def test_a_step_is_committed(task: TaskUnderTest) -> None:
    task.create()
    task.record_decision()
    task.claim()
    old = task.snapshot
    assert task.commit(status_event("a"), status_event("b"))
    now = task.snapshot
    assert now.position.epoch > old.position.epoch
    assert (now.position.seq, now.position.phase, now.position.status) == (2, Phase.UNDECIDED, TaskStatus.RUNNING)
    assert (now.attempt.number, now.attempt.claimed, now.attempt.lease_left, now.position.redeliveries) == (
        1,
        False,
        0.0,
        0,
    )
    assert (list(now.steps.tail), now.state, now.steps.first) == (task.steps, fold(task.steps), task.steps[0])
    assert task.event_log() == [(1, 0, "a"), (2, 0, "b")]
    assert task.store.record_decision(TASK, old.position.epoch, TURN, []) is None


def test_a_step_is_committed_with_the_next_decision(task: TaskUnderTest) -> None:
    task.create()
    task.record_decision()
    task.claim()
    old = task.snapshot
    epoch = task.commit_with_decision(status_event("a"), status_event("b"), status_event("c"))
    now = task.snapshot
    assert epoch == now.position.epoch > old.position.epoch
    assert (now.position.seq, now.position.phase, now.position.status, now.position.agent) == (
        2,
        Phase.TURN,
        TaskStatus.RUNNING,
        "writer",
    )
    assert (
        now.attempt.number,
        now.attempt.claimed,
        now.attempt.lease_left,
        now.position.redeliveries,
        now.logs.attempt_chunks,
    ) == (1, False, 0.0, 0, 0)
    assert (list(now.steps.tail), now.state, now.position.routing) == (task.steps, fold(task.steps), {"rule": "next"})
    assert task.event_log() == [(1, 0, "a"), (2, 0, "b"), (3, 0, "c")]
    assert task.store.record_decision(TASK, old.position.epoch + 1, TURN, []) is None
    assert task.claim().assignment.seq == 2


def test_a_commit_drops_its_decision_if_an_item_waits(task: TaskUnderTest) -> None:
    task.create()
    task.record_decision()
    task.inbox.add(TASK, ["one"])
    assert task.commit_with_decision(status_event("a"), status_event("b")) is None
    assert (task.snapshot.position.seq, task.snapshot.position.phase, task.snapshot.item_ids) == (
        2,
        Phase.UNDECIDED,
        ("one",),
    )
    assert task.event_log() == [(1, 0, "a")]


def test_the_decision_after_a_step_that_another_worker_committed_is_refused(task: TaskUnderTest) -> None:
    task.create()
    task.record_decision()
    old = task.snapshot.position.epoch
    assert task.commit()
    before = task.snapshot
    commit = Commit(task.steps[1], fold(task.steps[:2]), [status_event("late")])
    for fence in (old, before.position.epoch):
        assert task.store.commit_with_decision(TASK, fence, commit, TURN, [status_event("late")]) is None
    assert task.snapshot == before
    assert task.event_log() == []


def test_a_second_commit_of_a_step_publishes_nothing(task: TaskUnderTest) -> None:
    task.create()
    task.record_decision()
    epoch = task.snapshot.position.epoch
    assert task.commit(status_event("a"))
    task.record_decision()
    assert task.commit(status_event("b"))
    before = task.snapshot
    for seq in (1, 2):
        for fence in (epoch, before.position.epoch):
            step, state = task.steps[seq], fold(task.steps[: seq + 1])
            assert task.store.commit(TASK, fence, Commit(step, state, [status_event("late")]))
    assert task.snapshot == before
    assert task.event_log() == [(1, 0, "a"), (2, 0, "b")]


def test_a_commit_with_another_fence_or_position_is_refused(task: TaskUnderTest) -> None:
    task.create(2)
    old = task.snapshot.position.epoch
    task.record_decision()
    before = task.snapshot
    steps = make_chain(4)
    assert not task.store.commit(TASK, old, Commit(steps[2], fold(steps[:3]), [status_event("fenced out")]))
    assert not task.store.commit(TASK, before.position.epoch, Commit(steps[3], fold(steps), [status_event("too far")]))
    assert task.snapshot == before
    assert task.event_log() == []


def test_a_commit_ends_the_calls_before_it(task: TaskUnderTest) -> None:
    task.create()
    task.record_decision(Phase.TOOLS)
    assignment = task.tool_assignment()
    assert task.leases.claim_call(assignment, "me")
    assert task.commit()
    assert task.snapshot.calls == {}
    assert not task.leases.renew_call(assignment, "me")
    assert task.leases.record_outcome(assignment, "me", RESULT, status_event("late")) is None
    assert task.event_log() == []


def test_messages_carry_the_position_in_the_other_channel(task: TaskUnderTest) -> None:
    task.create(1, status_event("a"))
    task.record_decision(Phase.TURN, status_event("b"))
    claim = task.claim()
    for number in (1, 2, 3):
        assert emit_chunk(task.leases, claim, number, text_chunk(f"c{number}"), USAGE)
    task.commit(status_event("d"), status_event("e"), agent=USER)
    task.record_decision()
    assert emit_chunk(task.leases, task.claim(), 1, text_chunk("c4"), USAGE)
    assert task.event_log() == [(1, 0, "a"), (2, 0, "b"), (3, 3, "d"), (4, 3, "e")]
    assert task.chunk_log() == [(1, 2, "c1"), (2, 2, "c2"), (3, 2, "c3"), (4, 4, "c4")]
    assert len(task.generations()) == 1


def test_events_are_logged_unchanged(task: TaskUnderTest) -> None:
    task.create()
    event = status_event('"quoted" \\ ü \n\u2028 {}')
    task.record_decision(Phase.TURN, event)
    [record] = task.events()
    assert record == event.model_dump(mode="json") | {"seq": 1, "chunks": 0, "generation": record["generation"]}


def test_a_snapshot_shows_calls(task: TaskUnderTest) -> None:
    task.create()
    task.record_decision(Phase.TOOLS)
    for number in (1, 2, 3):
        assert task.leases.claim_call(task.tool_assignment(f"tc_{number}"), "me")
    assert task.leases.record_outcome(task.tool_assignment("tc_2"), "me", RESULT, status_event("result")) == 1
    calls = task.snapshot.calls
    assert set(calls) == {"tc_1", "tc_2", "tc_3"}
    assert calls["tc_2"] == CallState(attempt=1, claimed=True, outcome=RESULT)
    for call_id in ("tc_1", "tc_3"):
        assert (calls[call_id].attempt, calls[call_id].claimed, calls[call_id].outcome) == (1, True, None)
        assert 50 < calls[call_id].lease_left <= 60


def test_an_ended_task_has_an_end_of_its_fence(task: TaskUnderTest) -> None:
    assert task.store.end_epoch(TASK) is None
    task.create(2)
    assert task.store.end_epoch(TASK) is None
    task.record_decision(Phase.END)
    assert task.store.end_epoch(TASK) == task.snapshot.position.epoch
    task.store.erase(TASK, 100)
    assert task.store.end_epoch(TASK) is None


def test_a_decision_changes_a_snapshot_as_it_changes_the_task(task: TaskUnderTest) -> None:
    task.create(2)
    task.record_decision()
    emit_chunk(task.leases, task.claim(), 1, text_chunk("some text"), USAGE)
    before = task.snapshot
    for phase in (Phase.TOOLS, Phase.WAIT, Phase.END):
        decision = Decision(phase, TaskStatus.RUNNING, "why", routing={"rule": "next"})
        epoch = task.store.record_decision(TASK, task.snapshot.position.epoch, decision, [])
        assert epoch is not None
        now, expected = task.snapshot, before.after_decision(epoch, decision)
        position = replace(expected.position, dispatched_at=now.position.dispatched_at)
        attempt = replace(expected.attempt, unfinished_usage=now.attempt.unfinished_usage)
        assert now == replace(expected, position=position, attempt=attempt)


def test_only_an_ended_task_of_the_same_generation_expires(task: TaskUnderTest) -> None:
    task.create(2, status_event("a"))
    task.record_decision()
    task.claim()
    task.inbox.add(TASK, ["one"])
    assert not task.store.expire(TASK, 0, task.snapshot.logs.generation)
    assert task.snapshot.position.seq == 2, "a task that has not ended does not expire"
    task.record_decision(Phase.END)
    generation = task.snapshot.logs.generation
    assert task.store.reset_logs(TASK, task.snapshot.position.epoch, [])
    assert not task.store.expire(TASK, 0, generation)
    assert task.snapshot.position.seq == 2, "its logs were reset since"
    assert task.store.expire(TASK, 100, task.snapshot.logs.generation)
    assert task.snapshot.position.seq == 2
    assert task.store.expire(TASK, 0, task.snapshot.logs.generation)
    assert task.store.load(TASK, 1) is None
    assert task.event_log() == []
    task.create(1, status_event("b"))
    assert task.event_log() == [(1, 0, "b")]
    assert task.snapshot.item_ids == ()


def test_a_task_that_is_created_after_a_wipe_has_a_new_generation_and_fence(task: TaskUnderTest) -> None:
    task.create(2, status_event("a"))
    task.record_decision()
    claim, assignment = task.claim(), task.turn_assignment()
    epoch, generations = task.snapshot.position.epoch, task.generations()
    emit_chunk(task.leases, claim, 1, text_chunk("c"), USAGE)
    task.wipe()
    assert task.store.load(TASK, 10) is None
    task.create(2, status_event("b"))
    assert task.generations().isdisjoint(generations)
    assert task.snapshot.position.epoch > epoch
    task.record_decision()
    before = task.snapshot
    assert task.leases.claim_turn(assignment, "me", 10) is None
    assert not emit_chunk(task.leases, claim, 2, text_chunk("late"), USAGE)
    assert not task.leases.renew_turn(claim)
    assert task.leases.restart_turn(TASK, epoch, status_event("late")) is None
    assert task.leases.count_redelivery(TASK, epoch, False) == 0
    assert task.store.record_decision(TASK, epoch, TURN, [status_event("late")]) is None
    assert not task.store.commit(
        TASK, epoch, Commit(step_after(task.steps), fold(make_chain(3)), [status_event("late")])
    )
    assert task.snapshot == before
    assert (task.event_log(), task.chunk_log()) == ([(1, 0, "b")], [])


def test_a_turn_continues_after_a_reset_of_the_logs(task: TaskUnderTest) -> None:
    assert task.store.reset_logs(TASK, 1, [status_event("no task")])
    assert task.store.load(TASK, 1) is None
    task.create(2, status_event("a"), status_event("b"))
    task.record_decision()
    claim = task.claim()
    emit_chunk(task.leases, claim, 1, text_chunk("c1"), USAGE)
    before, generations = task.snapshot, task.generations()
    assert not task.store.reset_logs(TASK, before.position.epoch - 1, [status_event("late")])
    assert task.store.reset_logs(TASK, before.position.epoch, [status_event("again")])
    assert task.generations().isdisjoint(generations)
    assert (task.event_log(), task.chunk_log()) == ([(1, 0, "again")], [])
    now = task.snapshot
    assert (now.logs.events, now.logs.chunks) == (1, 0)
    assert now.logs.generation != before.logs.generation
    attempt = replace(now.attempt, lease_left=before.attempt.lease_left)
    assert replace(now, logs=before.logs, attempt=attempt) == before
    assert emit_chunk(task.leases, claim, 1, text_chunk("c1"), USAGE)
    assert emit_chunk(task.leases, claim, 2, text_chunk("c2"), USAGE)
    assert task.commit(status_event("d"), chunks=9)
    assert (task.event_log(), task.chunk_log()) == ([(1, 0, "again"), (2, 1, "d")], [(1, 1, "c2")])
    assert len(task.generations()) == 1


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


def test_a_commit_of_a_long_text_keeps_no_chunk(task: TaskUnderTest) -> None:
    task.create()
    task.record_decision()
    emit_chunk(task.leases, task.claim(), 1, text_chunk("c"), USAGE)
    assert task.commit(text="long " * 10_000, chunks=1)
    assert task.chunk_log() == []


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
    task.inbox.add(TASK, ["one"])


def test_all_keys_of_a_task_are_in_one_slot(redis_task: TaskOnRedis) -> None:
    use_every_key(redis_task)
    names = redis_task.names()
    assert len(names) >= 6
    assert [name for name in names if f"{{{TASK}}}" not in name] == []


def test_all_keys_of_an_expired_task_have_a_time_to_live(redis_task: TaskOnRedis) -> None:
    use_every_key(redis_task)
    redis_task.record_decision(Phase.END, status_event("end"))
    assert redis_task.store.expire(TASK, 100, redis_task.snapshot.logs.generation)
    lives: dict[str, Any] = {name: redis_task.client.ttl(name) for name in redis_task.names()}
    assert {name: left for name, left in lives.items() if not 0 < left <= 100} == {}
    redis_task.store.expire(TASK, 0, redis_task.snapshot.logs.generation)
    assert [name for name in redis_task.names() if "lease" not in name] == []


def test_an_unreachable_redis_raises_a_transient_error(unreachable_task: TaskOnRedis) -> None:
    store = unreachable_task.store
    [step] = make_chain(1)
    uses: list[Callable[[], object]] = [
        lambda: store.load(TASK, 1),
        lambda: store.create(TASK, [step], fold([step]), []),
        lambda: store.record_decision(TASK, 1, TURN, []),
        lambda: store.commit(TASK, 1, Commit(step, fold([step]), [])),
        lambda: store.commit_with_decision(TASK, 1, Commit(step, fold([step]), []), TURN, []),
        lambda: store.create_with_decision(TASK, [step], fold([step]), [], TURN, []),
        lambda: store.reset_logs(TASK, 1, [status_event("again")]),
        lambda: store.end_epoch(TASK),
        lambda: store.expire(TASK, 1, "0"),
    ]
    for use in uses:
        with pytest.raises(TransientError, match=r"redis does not answer.*ROBOCO_REDIS_URL"):
            use()


def test_an_erased_task_is_gone_and_is_not_created_again(task: TaskUnderTest) -> None:
    task.create(2, status_event("a"))
    epoch = task.snapshot.position.epoch
    task.inbox.add(TASK, ["item1"])
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


def test_a_task_that_is_unknown_is_not_created_while_it_counts_as_erased(task: TaskUnderTest) -> None:
    task.store.erase(TASK, 100)
    assert not task.store.create(TASK, make_chain(1), fold(make_chain(1)), [])
    assert task.store.expire(TASK, 10, "0")


def test_redis_forgets_an_erased_task(redis_task: TaskOnRedis) -> None:
    redis_task.create(2, status_event("a"))
    redis_task.store.erase(TASK, 100)
    left = list(redis_task.client.scan_iter(f"{redis_task.keys.prefix}:*{TASK}*"))
    assert [key.rpartition(":")[2] for key in left] == ["state"]
    assert redis_task.client.hgetall(left[0]) == {"erased": "1"}
    assert 0 < redis_task.client.ttl(left[0]) <= 100
