"""Leases on turns, and the chunks that turns emit."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from roboco.errors import TransientError
from roboco.ports.assignment import TurnAssignment
from roboco.ports.leases import TurnClaim
from roboco.ports.task_store import Phase, TokenUsage
from tests.contract.redis.chunk_emission import emit_chunk
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import SHORT_LEASE, TaskUnderTest
from tests.contract.samples import TASK, USAGE, status_event, text_chunk


@pytest.fixture
def turn_task(task: TaskUnderTest) -> TaskUnderTest:
    """Return a task with a pending turn that no worker has claimed."""
    task.create(3)
    task.record_decision()
    return task


@pytest.mark.parametrize("field", ["epoch", "seq", "attempt"])
@pytest.mark.parametrize("by", [-1, 1])
def test_a_claim_of_another_turn_is_refused(turn_task: TaskUnderTest, field: str, by: int) -> None:
    assignment = turn_task.turn_assignment()
    assert (
        turn_task.leases.claim_turn(replace(assignment, **{field: getattr(assignment, field) + by}), "me", 10) is None
    )
    assert not turn_task.snapshot.attempt.claimed
    assert turn_task.leases.claim_turn(replace(assignment, task_id="another"), "me", 10) is None


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.TURN])
def test_a_turn_is_claimed_only_in_the_phase_turn(task: TaskUnderTest, phase: Phase) -> None:
    task.create()
    if phase is not Phase.UNDECIDED:
        task.record_decision(phase)
    assert task.leases.claim_turn(task.turn_assignment(), "me", 10) is None
    assert not task.snapshot.attempt.claimed


def test_an_attempt_is_claimed_once(turn_task: TaskUnderTest) -> None:
    assignment = turn_task.turn_assignment()
    claim = turn_task.claim("me")
    assert turn_task.leases.claim_turn(assignment, "you", 10) is None
    assert turn_task.leases.claim_turn(assignment, "me", 10) == claim, "the first reply was lost"


def test_an_attempt_is_not_claimed_again_when_its_lease_has_ended(turn_task: TaskUnderTest) -> None:
    lost = turn_task.let_claim_expire()
    assert (turn_task.snapshot.attempt.claimed, turn_task.snapshot.attempt.lease_left) == (True, 0.0)
    assert turn_task.leases.claim_turn(lost.assignment, "you", 10) is None


def test_one_of_many_claims_wins(redis_task: TaskOnRedis) -> None:
    redis_task.create()
    redis_task.record_decision()
    barrier = threading.Barrier(8)
    assignment = redis_task.turn_assignment()

    def claim(number: int) -> TurnClaim | None:
        barrier.wait()
        return redis_task.leases.claim_turn(assignment, str(number), 1)

    with ThreadPoolExecutor(8) as pool:
        [winner] = filter(None, pool.map(claim, range(8)))
    assert redis_task.leases.renew_turn(winner)


def test_chunks_are_numbered_without_gaps(turn_task: TaskUnderTest) -> None:
    claim = turn_task.claim()
    for number in (1, 2, 2, 1, 3, 3):
        assert emit_chunk(turn_task.leases, claim, number, text_chunk(f"c{number}"), USAGE)
    assert turn_task.chunk_log() == [(1, 0, "c1"), (2, 0, "c2"), (3, 0, "c3")]


def test_a_chunk_renews_the_lease(turn_task: TaskUnderTest) -> None:
    brief = turn_task.short_lease.claim_turn(turn_task.turn_assignment(), "me", 10)
    assert brief is not None
    assert emit_chunk(turn_task.leases, brief, 1, text_chunk("c"), USAGE)
    assert turn_task.snapshot.attempt.lease_left > SHORT_LEASE
    turn_task.short_lease.renew_turn(brief)
    assert turn_task.snapshot.attempt.lease_left <= SHORT_LEASE
    assert emit_chunk(turn_task.leases, brief, 1, text_chunk("c"), USAGE)
    assert turn_task.snapshot.attempt.lease_left > SHORT_LEASE, "a repeated chunk renews the lease too"


def test_only_the_owner_emits_and_renews(turn_task: TaskUnderTest) -> None:
    mine = turn_task.claim("me")
    yours = replace(mine, token="you")
    assert not emit_chunk(turn_task.leases, yours, 1, text_chunk("c"), USAGE)
    assert not turn_task.leases.renew_turn(yours)
    assert not emit_chunk(turn_task.leases, replace(mine, token=""), 1, text_chunk("c"), USAGE)
    assert turn_task.chunk_log() == []


@pytest.mark.parametrize("move", ["choose", "commit", "restart"])
def test_everything_is_refused_once_the_fence_has_moved(turn_task: TaskUnderTest, move: str) -> None:
    claim = turn_task.claim()
    moves: dict[str, Callable[[], object]] = {
        "choose": turn_task.record_decision,
        "commit": turn_task.commit,
        "restart": lambda: turn_task.leases.restart_turn(TASK, claim.assignment.epoch, status_event("again"), "me"),
    }
    assert moves[move]()
    before, events = turn_task.snapshot, turn_task.event_log()
    assert turn_task.leases.claim_turn(claim.assignment, "me", 10) is None
    assert not emit_chunk(turn_task.leases, claim, 1, text_chunk("late"), USAGE)
    assert not turn_task.leases.renew_turn(claim)
    assert turn_task.leases.restart_turn(TASK, claim.assignment.epoch, status_event("late")) is None
    assert turn_task.leases.restart_turn(TASK, claim.assignment.epoch, status_event("late"), "me") is None
    assert turn_task.leases.count_redelivery(TASK, claim.assignment.epoch, False) == 0
    assert (turn_task.snapshot, turn_task.event_log(), turn_task.chunk_log()) == (before, events, [])


def test_a_lost_attempt_is_voided(turn_task: TaskUnderTest) -> None:
    lost = turn_task.let_claim_expire()
    assert emit_chunk(turn_task.leases, lost, 1, text_chunk("one"), USAGE)
    turn_task.short_lease.renew_turn(lost)
    turn_task.leases.count_redelivery(TASK, lost.assignment.epoch, False)
    turn_task.pass_time(SHORT_LEASE)
    epoch = turn_task.leases.restart_turn(TASK, lost.assignment.epoch, status_event("again"))
    now = turn_task.snapshot
    assert epoch == now.position.epoch
    assert epoch > lost.assignment.epoch
    assert (
        now.attempt.number,
        now.attempt.claimed,
        now.position.redeliveries,
        now.position.phase,
        now.position.agent,
    ) == (2, False, 0, Phase.TURN, "writer")
    assert turn_task.event_log() == [(1, 1, "again")]
    again = turn_task.leases.claim_turn(TurnAssignment(TASK, 3, epoch, 2), "you", 10)
    assert again is not None
    assert emit_chunk(turn_task.leases, again, 1, text_chunk("two", attempt=2), USAGE)
    assert not emit_chunk(turn_task.leases, lost, 2, text_chunk("late"), USAGE)
    assert turn_task.chunk_log() == [(1, 0, "one"), (2, 1, "two")]


def test_the_usage_of_voided_attempts_is_kept_until_the_commit(turn_task: TaskUnderTest) -> None:
    claim = turn_task.claim("me")
    assert turn_task.snapshot.attempt.unfinished_usage == TokenUsage()
    assert emit_chunk(turn_task.leases, claim, 1, text_chunk("a"), TokenUsage(100, 1))
    assert emit_chunk(turn_task.leases, claim, 2, text_chunk("b"), TokenUsage(100, 2))
    assert emit_chunk(turn_task.leases, claim, 1, text_chunk("a"), TokenUsage(100, 1))
    assert turn_task.snapshot.attempt.unfinished_usage == TokenUsage(100, 2)
    again: TurnClaim | None = None
    for attempt in (2, 3):  # the second attempt is lost before its first chunk
        epoch = turn_task.leases.restart_turn(TASK, turn_task.snapshot.position.epoch, status_event("again"), "me")
        assert epoch is not None
        assert turn_task.snapshot.attempt.unfinished_usage == TokenUsage(100, 2)
        again = turn_task.leases.claim_turn(TurnAssignment(TASK, 3, epoch, attempt), "me", 10)
        assert again is not None
        assert again.snapshot.attempt.unfinished_usage == TokenUsage(100, 2)
    assert again is not None
    assert emit_chunk(turn_task.leases, again, 1, text_chunk("c"), TokenUsage(90, 3))
    assert turn_task.snapshot.attempt.unfinished_usage == TokenUsage(190, 5)
    turn_task.commit()
    assert turn_task.snapshot.attempt.unfinished_usage == TokenUsage()
    turn_task.record_decision()
    assert turn_task.snapshot.attempt.unfinished_usage == TokenUsage()


def test_an_unreachable_redis_raises_a_transient_error(unreachable_task: TaskOnRedis) -> None:
    leases = unreachable_task.leases
    assignment = TurnAssignment(TASK, 1, 1, 1)
    claim = TurnClaim(assignment, "me", None)  # type: ignore[arg-type]  # the snapshot is not used
    uses: list[Callable[[], object]] = [
        lambda: leases.claim_turn(assignment, "me", 1),
        lambda: emit_chunk(leases, claim, 1, text_chunk("c"), USAGE),
        lambda: leases.renew_turn(claim),
        lambda: leases.restart_turn(TASK, 1, status_event("again")),
        lambda: leases.count_redelivery(TASK, 1, False),
    ]
    for use in uses:
        with pytest.raises(TransientError, match="redis does not answer"):
            use()
