"""The board: the state of tasks."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from roboco.adapters.redis import task_store as redis_board
from roboco.domain.history.part import ToolResult
from roboco.domain.history.state import fold
from roboco.domain.history.tool_outcome import ToolOutcome
from roboco.domain.status import TaskStatus
from roboco.errors import TransientError
from roboco.ports.task_store import CallState, Commit, Decision, Phase
from tests.contract.a_task import ATask
from tests.contract.emitted import emitted
from tests.contract.samples import TASK, USED, chain, said, step_after, told
from tests.contract.task_on_redis import TaskOnRedis

TURN = Decision(Phase.TURN, TaskStatus.RUNNING, agent="writer")
RESULT = ToolOutcome(result=ToolResult(tool_call_id="tc_1", result={"a": [1, "ü"]}))


def test_a_task_that_is_not_known(task: ATask) -> None:
    assert task.board.load(TASK, 10) is None
    assert task.board.record_decision(TASK, 1, TURN, [told("a")]) is None
    assert not task.board.commit(TASK, 1, Commit(chain(1)[0], fold(chain(1)), [told("a")]))
    task.board.expire(TASK, 10, "0")
    assert task.board.load(TASK, 10) is None
    assert task.told() == []


@pytest.mark.parametrize(("count", "status"), [(1, TaskStatus.QUEUED), (7, TaskStatus.RUNNING)])
def test_a_new_task_is_idle(task: ATask, count: int, status: TaskStatus) -> None:
    task.create(count, told("a"), told("b"))
    now = task.now
    assert (now.seq, now.phase, now.status, now.attempt) == (count, Phase.UNDECIDED, status, 1)
    assert (now.reason, now.agent, now.routing, now.redeliveries) == ("", "", {}, 0)
    assert (now.claimed, now.lease_left, now.item_ids, now.calls) == (False, 0.0, (), {})
    assert (now.first, list(now.tail), now.state) == (task.steps[0], task.steps, fold(task.steps))
    assert now.epoch > 0
    assert task.told() == [(1, 0, "a"), (2, 0, "b")]
    assert len(task.generations()) == 1


def test_a_known_task_is_not_set_up_again(task: ATask) -> None:
    task.create(3, told("a"))
    before = (task.now, task.told(), task.generations())
    steps = chain(2)
    assert not task.board.create(TASK, steps, fold(steps), [told("b")])
    assert (task.now, task.told(), task.generations()) == before


def test_who_sets_a_task_up_is_told_so(redis_task: TaskOnRedis) -> None:
    together = threading.Barrier(8)

    def create(_: int) -> bool:
        together.wait()
        steps = chain(1)
        return redis_task.board.create(TASK, steps, fold(steps), [told("a")])

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(create, range(8))).count(True) == 1
    assert redis_task.told() == [(1, 0, "a")]


def test_the_newest_steps_are_loaded(task: ATask) -> None:
    task.create(6)
    for tail in (1, 4, 6, 100):
        snapshot = task.board.load(TASK, tail)
        assert snapshot is not None
        assert list(snapshot.tail) == task.steps[-tail:]
        assert snapshot.first == task.steps[0]


def test_the_board_keeps_the_newest_steps(redis_task: TaskOnRedis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_board, "MAX_TAIL_STEPS", 5)
    redis_task.create(8)
    assert list(redis_task.now.tail) == redis_task.steps[-5:]
    for _ in range(3):
        redis_task.choose()
        assert redis_task.commit()
    assert list(redis_task.now.tail) == redis_task.steps[-5:]
    assert redis_task.now.first == redis_task.steps[0]


def test_a_choice_is_written_down(task: ATask) -> None:
    task.create(2, told("a"))
    before = task.now
    choice = Decision(Phase.WAIT, TaskStatus.USER_TURN, "für dich", "writer", {"rule": "ü", "candidates": ["a", "b"]})
    epoch = task.board.record_decision(TASK, before.epoch, choice, [told("b"), told("c")])
    now = task.now
    assert epoch == now.epoch
    assert now.epoch > before.epoch
    assert (now.phase, now.status, now.reason, now.agent) == (Phase.WAIT, TaskStatus.USER_TURN, "für dich", "writer")
    assert now.routing == {"rule": "ü", "candidates": ["a", "b"]}
    assert (now.seq, now.tail, now.state) == (before.seq, before.tail, before.state)
    assert task.told() == [(1, 0, "a"), (2, 0, "b"), (3, 0, "c")]


def test_a_choice_needs_the_fence(task: ATask) -> None:
    task.create()
    old = task.now.epoch
    task.choose(Phase.TURN, told("a"))
    before = task.now
    for epoch in (old, before.epoch + 1, 0):
        assert task.board.record_decision(TASK, epoch, Decision(Phase.END, TaskStatus.FAILED), [told("b")]) is None
    assert task.now == before
    assert task.told() == [(1, 0, "a")]


def test_a_choice_is_void_if_more_has_come(task: ATask) -> None:
    task.create()
    task.inbox.add(TASK, ["one", "two"])
    before = task.now
    late, decided = (
        replace(TURN, seen_item_ids=frozenset({"one"})),
        replace(TURN, seen_item_ids=frozenset({"one", "two", "gone"})),
    )
    assert task.board.record_decision(TASK, before.epoch, late, [told("void")]) is None
    assert task.now == before
    assert task.board.record_decision(TASK, before.epoch, decided, [told("a")]) == task.now.epoch
    task.inbox.remove(TASK, "one")
    task.inbox.add(TASK, ["three"])
    assert task.board.record_decision(TASK, task.now.epoch, decided, [told("void")]) is None, "as many, but another one"
    task.inbox.remove(TASK, "three")
    assert task.board.record_decision(TASK, task.now.epoch, decided, [told("b")]) == task.now.epoch
    assert (
        task.board.record_decision(TASK, task.now.epoch, replace(TURN, seen_item_ids=frozenset()), [told("void")])
        is None
    )
    assert task.board.record_decision(TASK, task.now.epoch, TURN, [told("c")]) == task.now.epoch
    assert task.told() == [(1, 0, "a"), (2, 0, "b"), (3, 0, "c")]


def test_a_choice_is_void_in_another_run_of_redis(task: ATask) -> None:
    task.create()
    before = task.now
    assert (
        task.board.record_decision(TASK, before.epoch, replace(TURN, instance_id="0123456789abcdef"), [told("void")])
        is None
    )
    assert task.now == before
    here = replace(TURN, instance_id=task.schedule.instance_id())
    assert task.board.record_decision(TASK, before.epoch, here, [told("a")]) == task.now.epoch
    assert task.told() == [(1, 0, "a")]


def test_a_fence_starts_above_a_known_epoch(task: ATask) -> None:
    task.create()
    ahead = task.now.epoch + 1_000_000
    task.wipe()
    steps = chain(1)
    task.board.create(TASK, steps, fold(steps), [], above_epoch=ahead)
    assert task.now.epoch == ahead + 1


@pytest.mark.parametrize("phase", [Phase.UNDECIDED, Phase.WAIT])
def test_the_fence_moves_with_logs_that_begin_again_while_nobody_works(task: ATask, phase: Phase) -> None:
    task.create()
    if phase is Phase.WAIT:
        task.choose(Phase.WAIT)
    before = task.now.epoch
    assert task.board.reset_logs(TASK, before, [told("again")])
    assert task.now.epoch > before
    assert task.board.record_decision(TASK, before, TURN, [told("void")]) is None
    assert task.told() == [(1, 0, "again")]


def test_logs_of_an_ended_task_begin_again_with_its_end(task: ATask) -> None:
    task.create(1, told("a"))
    task.choose(Phase.END, told("end"))
    before = task.now
    assert task.board.reset_logs(TASK, before.epoch, [told("again"), told("end")])
    now = task.now
    assert (now.epoch, now.phase, now.events) == (before.epoch, Phase.END, 2)
    assert now.generation != before.generation
    assert task.told() == [(1, 0, "again"), (2, 0, "end")]


def test_one_of_many_choices_wins(redis_task: TaskOnRedis) -> None:
    redis_task.create()
    together = threading.Barrier(8)
    epoch = redis_task.now.epoch

    def choose(number: int) -> int | None:
        together.wait()
        return redis_task.board.record_decision(TASK, epoch, TURN, [told(str(number)), told(str(number))])

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(choose, range(8)))
    [winner] = [number for number, found in enumerate(won) if found is not None]
    assert redis_task.now.epoch == won[winner]
    assert redis_task.told() == [(1, 0, str(winner)), (2, 0, str(winner))]


def test_a_choice_begins_afresh(task: ATask) -> None:
    task.create()
    task.choose()
    task.turns.restart(TASK, task.now.epoch, told("again"))
    task.turns.count_redelivery(TASK, task.now.epoch, False)
    task.claim()
    task.choose()
    now = task.now
    assert (now.attempt, now.claimed, now.lease_left, now.redeliveries) == (1, False, 0.0, 0)
    task.choose(Phase.TOOLS)
    assert task.calls.record_outcome(task.call(), None, RESULT, told("result")) == 1
    task.choose(Phase.TURN)
    assert task.now.calls == {}
    task.choose(Phase.TOOLS)
    assert task.calls.claim(task.call(), "me")


def test_a_step_is_taken_over(task: ATask) -> None:
    task.create()
    task.choose()
    task.claim()
    old = task.now
    assert task.commit(told("a"), told("b"))
    now = task.now
    assert now.epoch > old.epoch
    assert (now.seq, now.phase, now.status) == (2, Phase.UNDECIDED, TaskStatus.RUNNING)
    assert (now.attempt, now.claimed, now.lease_left, now.redeliveries) == (1, False, 0.0, 0)
    assert (list(now.tail), now.state, now.first) == (task.steps, fold(task.steps), task.steps[0])
    assert task.told() == [(1, 0, "a"), (2, 0, "b")]
    assert task.board.record_decision(TASK, old.epoch, TURN, []) is None


def test_a_step_is_taken_over_with_what_follows(task: ATask) -> None:
    task.create()
    task.choose()
    task.claim()
    old = task.now
    epoch = task.commit_and_choose(told("a"), told("b"), told("c"))
    now = task.now
    assert epoch == now.epoch > old.epoch
    assert (now.seq, now.phase, now.status, now.agent) == (2, Phase.TURN, TaskStatus.RUNNING, "writer")
    assert (now.attempt, now.claimed, now.lease_left, now.redeliveries, now.attempt_chunks) == (1, False, 0.0, 0, 0)
    assert (list(now.tail), now.state, now.routing) == (task.steps, fold(task.steps), {"rule": "next"})
    assert task.told() == [(1, 0, "a"), (2, 0, "b"), (3, 0, "c")]
    assert task.board.record_decision(TASK, old.epoch + 1, TURN, []) is None
    assert task.claim().assignment.seq == 2


def test_what_waits_for_a_task_is_looked_at_before_anything_follows(task: ATask) -> None:
    task.create()
    task.choose()
    task.inbox.add(TASK, ["one"])
    assert task.commit_and_choose(told("a"), told("b")) is None
    assert (task.now.seq, task.now.phase, task.now.item_ids) == (2, Phase.UNDECIDED, ("one",))
    assert task.told() == [(1, 0, "a")]


def test_nothing_follows_a_step_that_somebody_else_has_taken_over(task: ATask) -> None:
    task.create()
    task.choose()
    old = task.now.epoch
    assert task.commit()
    before = task.now
    commit = Commit(task.steps[1], fold(task.steps[:2]), [told("late")])
    for fence in (old, before.epoch):
        assert task.board.commit_with_decision(TASK, fence, commit, TURN, [told("late")]) is None
    assert task.now == before
    assert task.told() == []


def test_a_step_that_was_taken_over_is_not_told_again(task: ATask) -> None:
    task.create()
    task.choose()
    epoch = task.now.epoch
    assert task.commit(told("a"))
    task.choose()
    assert task.commit(told("b"))
    before = task.now
    for seq in (1, 2):
        for fence in (epoch, before.epoch):
            step, state = task.steps[seq], fold(task.steps[: seq + 1])
            assert task.board.commit(TASK, fence, Commit(step, state, [told("late")]))
    assert task.now == before
    assert task.told() == [(1, 0, "a"), (2, 0, "b")]


def test_a_step_needs_the_fence_and_the_next_position(task: ATask) -> None:
    task.create(2)
    old = task.now.epoch
    task.choose()
    before = task.now
    steps = chain(4)
    assert not task.board.commit(TASK, old, Commit(steps[2], fold(steps[:3]), [told("fenced out")]))
    assert not task.board.commit(TASK, before.epoch, Commit(steps[3], fold(steps), [told("too far")]))
    assert task.now == before
    assert task.told() == []


def test_a_step_ends_its_calls(task: ATask) -> None:
    task.create()
    task.choose(Phase.TOOLS)
    order = task.call()
    assert task.calls.claim(order, "me")
    assert task.commit()
    assert task.now.calls == {}
    assert not task.calls.renew(order, "me")
    assert task.calls.record_outcome(order, "me", RESULT, told("late")) is None
    assert task.told() == []


def test_messages_carry_how_far_the_other_channel_was(task: ATask) -> None:
    task.create(1, told("a"))
    task.choose(Phase.TURN, told("b"))
    claim = task.claim()
    for number in (1, 2, 3):
        assert emitted(task.turns, claim, number, said(f"c{number}"), USED)
    task.commit(told("d"), told("e"))
    task.choose()
    assert emitted(task.turns, task.claim(), 1, said("c4"), USED)
    assert task.told() == [(1, 0, "a"), (2, 0, "b"), (3, 3, "d"), (4, 3, "e")]
    assert task.said() == [(1, 2, "c1"), (2, 2, "c2"), (3, 2, "c3"), (4, 4, "c4")]
    assert len(task.generations()) == 1


def test_events_keep_what_they_say(task: ATask) -> None:
    task.create()
    event = told('"quoted" \\ ü \n\u2028 {}')
    task.choose(Phase.TURN, event)
    [record] = task.events()
    assert record == event.model_dump(mode="json") | {"seq": 1, "chunks": 0, "generation": record["generation"]}


def test_a_snapshot_shows_calls(task: ATask) -> None:
    task.create()
    task.choose(Phase.TOOLS)
    for number in (1, 2, 3):
        assert task.calls.claim(task.call(f"tc_{number}"), "me")
    assert task.calls.record_outcome(task.call("tc_2"), "me", RESULT, told("result")) == 1
    calls = task.now.calls
    assert set(calls) == {"tc_1", "tc_2", "tc_3"}
    assert calls["tc_2"] == CallState(attempt=1, claimed=True, outcome=RESULT)
    for call_id in ("tc_1", "tc_3"):
        assert (calls[call_id].attempt, calls[call_id].claimed, calls[call_id].outcome) == (1, True, None)
        assert 50 < calls[call_id].lease_left <= 60


def test_a_task_that_left_is_forgotten(task: ATask) -> None:
    task.create(2, told("a"))
    task.choose()
    task.claim()
    task.inbox.add(TASK, ["one"])
    assert not task.board.expire(TASK, 0, task.now.generation)
    assert task.now.seq == 2, "a task that has not ended stays"
    task.choose(Phase.END)
    generation = task.now.generation
    assert task.board.reset_logs(TASK, task.now.epoch, [])
    assert not task.board.expire(TASK, 0, generation)
    assert task.now.seq == 2, "its logs have begun anew"
    assert task.board.expire(TASK, 100, task.now.generation)
    assert task.now.seq == 2
    assert task.board.expire(TASK, 0, task.now.generation)
    assert task.board.load(TASK, 1) is None
    assert task.told() == []
    task.create(1, told("b"))
    assert task.told() == [(1, 0, "b")]
    assert task.now.item_ids == ()


def test_a_wiped_task_begins_a_new_generation_behind_a_new_fence(task: ATask) -> None:
    task.create(2, told("a"))
    task.choose()
    claim, order = task.claim(), task.order()
    epoch, generations = task.now.epoch, task.generations()
    emitted(task.turns, claim, 1, said("c"), USED)
    task.wipe()
    assert task.board.load(TASK, 10) is None
    task.create(2, told("b"))
    assert task.generations().isdisjoint(generations)
    assert task.now.epoch > epoch
    task.choose()
    before = task.now
    assert task.turns.claim(order, "me", 10) is None
    assert not emitted(task.turns, claim, 2, said("late"), USED)
    assert not task.turns.renew(claim)
    assert task.turns.restart(TASK, epoch, told("late")) is None
    assert task.turns.count_redelivery(TASK, epoch, False) == 0
    assert task.board.record_decision(TASK, epoch, TURN, [told("late")]) is None
    assert not task.board.commit(TASK, epoch, Commit(step_after(task.steps), fold(chain(3)), [told("late")]))
    assert task.now == before
    assert (task.told(), task.said()) == ([(1, 0, "b")], [])


def test_logs_begin_again_and_the_work_goes_on(task: ATask) -> None:
    assert task.board.reset_logs(TASK, 1, [told("nobody there")])
    assert task.board.load(TASK, 1) is None
    task.create(2, told("a"), told("b"))
    task.choose()
    claim = task.claim()
    emitted(task.turns, claim, 1, said("c1"), USED)
    before, generations = task.now, task.generations()
    assert not task.board.reset_logs(TASK, before.epoch - 1, [told("late")])
    assert task.board.reset_logs(TASK, before.epoch, [told("again")])
    assert task.generations().isdisjoint(generations)
    assert (task.told(), task.said()) == ([(1, 0, "again")], [])
    now = task.now
    assert (now.events, now.chunks) == (1, 0)
    assert now.generation != before.generation
    now = replace(now, generation=before.generation, events=before.events, chunks=before.chunks)
    assert replace(now, lease_left=before.lease_left) == before
    assert emitted(task.turns, claim, 1, said("c1"), USED)
    assert emitted(task.turns, claim, 2, said("c2"), USED)
    assert task.commit(told("d"))
    assert (task.told(), task.said()) == ([(1, 0, "again"), (2, 1, "d")], [(1, 1, "c2")])
    assert len(task.generations()) == 1


def test_text_of_old_steps_leaves_the_log(redis_task: TaskOnRedis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_board, "MAX_LOGGED_CHUNKS", 150)
    redis_task.create()
    redis_task.choose()
    claim = redis_task.claim()
    for number in range(1, 601):
        emitted(redis_task.turns, claim, number, said(str(number)), USED)
    assert len(redis_task.said()) == 600
    redis_task.commit()
    kept = [seq for seq, _, _ in redis_task.said()]
    assert kept == list(range(kept[0], 601))
    assert 150 <= len(kept) <= 300


def play(task: TaskOnRedis) -> None:
    """Make use of every key of a task."""
    task.create(1, told("a"))
    task.choose()
    emitted(task.turns, task.claim(), 1, said("c"), USED)
    task.commit()
    task.choose(Phase.TOOLS)
    task.calls.claim(task.call("tc_1"), "me")
    task.calls.claim(task.call("tc_2"), "me")
    task.calls.record_outcome(task.call("tc_2"), "me", RESULT, told("b"))
    task.turns.restart(TASK, task.now.epoch, told("c"))
    task.choose(Phase.TURN)
    task.claim()
    task.inbox.add(TASK, ["one"])


def test_all_keys_of_a_task_stand_in_one_slot(redis_task: TaskOnRedis) -> None:
    play(redis_task)
    names = redis_task.names()
    assert len(names) >= 6
    assert [name for name in names if f"{{{TASK}}}" not in name] == []


def test_all_keys_of_a_task_that_left_have_a_time_to_live(redis_task: TaskOnRedis) -> None:
    play(redis_task)
    redis_task.choose(Phase.END, told("end"))
    assert redis_task.board.expire(TASK, 100, redis_task.now.generation)
    lives: dict[str, Any] = {name: redis_task.client.ttl(name) for name in redis_task.names()}
    assert {name: left for name, left in lives.items() if not 0 < left <= 100} == {}
    redis_task.board.expire(TASK, 0, redis_task.now.generation)
    assert [name for name in redis_task.names() if "lease" not in name] == []


def test_without_an_answer(unreachable_task: TaskOnRedis) -> None:
    board = unreachable_task.board
    [step] = chain(1)
    uses: list[Callable[[], object]] = [
        lambda: board.load(TASK, 1),
        lambda: board.create(TASK, [step], fold([step]), []),
        lambda: board.record_decision(TASK, 1, TURN, []),
        lambda: board.commit(TASK, 1, Commit(step, fold([step]), [])),
        lambda: board.commit_with_decision(TASK, 1, Commit(step, fold([step]), []), TURN, []),
        lambda: board.reset_logs(TASK, 1, [told("again")]),
        lambda: board.expire(TASK, 1, "0"),
    ]
    for use in uses:
        with pytest.raises(TransientError, match=r"redis does not answer.*ROBOCO_REDIS_URL"):
            use()
