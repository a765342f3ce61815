"""Leases on turns, and the chunks that turns emit."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from roboco.errors import TransientError
from roboco.ports.assignment import TurnAssignment
from roboco.ports.leases import TurnClaim
from roboco.ports.task_store import Declined, Phase, TokenUsage
from tests.contract.redis.chunk_emission import emit_chunk
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import LONG_LEASE, SHORT_LEASE, TaskUnderTest
from tests.contract.samples import TASK, USAGE, status_event, text_chunk


@pytest.fixture
def turn_task(task: TaskUnderTest) -> TaskUnderTest:
    """Return a task with a pending turn that no worker has claimed."""
    task.create(3)
    task.record_decision()
    return task


def test_a_claim_returns_a_snapshot_of_the_task(turn_task: TaskUnderTest) -> None:
    assignment = turn_task.turn_assignment()
    claim = turn_task.leases.claim_turn(assignment, "me", 2)
    assert claim is not None
    assert (claim.assignment, claim.token) == (assignment, "me")
    assert (claim.snapshot.position.phase, claim.snapshot.position.agent, claim.snapshot.position.seq) == (
        Phase.TURN,
        "writer",
        3,
    )
    assert (list(claim.snapshot.steps.tail), claim.snapshot.steps.first) == (turn_task.steps[-2:], turn_task.steps[0])
    assert claim.snapshot.state == turn_task.snapshot.state
    assert claim.snapshot.attempt.claimed
    assert turn_task.snapshot.attempt.claimed
    assert LONG_LEASE - 10 < turn_task.snapshot.attempt.lease_left <= LONG_LEASE


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


def test_chunks_are_logged_unchanged(redis_task: TaskOnRedis) -> None:
    redis_task.create()
    redis_task.record_decision()
    claim = redis_task.claim()
    texts = ['"quoted"', "\\", "ü漢\U0001f600", "\n\r\t\u2028\x00", "{} %s ", ""]
    for number, text in enumerate(texts, start=1):
        assert emit_chunk(redis_task.leases, claim, number, text_chunk(text), USAGE)
    assert [text for _, _, text in redis_task.chunk_log()] == texts


def test_a_chunk_renews_the_lease(turn_task: TaskUnderTest) -> None:
    brief = turn_task.short_lease.claim_turn(turn_task.turn_assignment(), "me", 10)
    assert brief is not None
    assert emit_chunk(turn_task.leases, brief, 1, text_chunk("c"), USAGE)
    assert turn_task.snapshot.attempt.lease_left > SHORT_LEASE
    turn_task.short_lease.renew_turn(brief)
    assert turn_task.snapshot.attempt.lease_left <= SHORT_LEASE
    assert emit_chunk(turn_task.leases, brief, 1, text_chunk("c"), USAGE)
    assert turn_task.snapshot.attempt.lease_left > SHORT_LEASE, "a repeated chunk renews the lease too"


def test_a_lease_is_renewed(turn_task: TaskUnderTest) -> None:
    claim = turn_task.short_lease.claim_turn(turn_task.turn_assignment(), "me", 10)
    assert claim is not None
    assert turn_task.leases.renew_turn(claim)
    assert turn_task.snapshot.attempt.lease_left > SHORT_LEASE
    turn_task.pass_time(SHORT_LEASE)
    assert turn_task.leases.restart_turn(TASK, claim.assignment.epoch, status_event("again")) is None


def test_an_owner_continues_after_its_lease_expired_unless_its_attempt_was_voided(turn_task: TaskUnderTest) -> None:
    lost = turn_task.let_claim_expire()
    assert emit_chunk(turn_task.leases, lost, 1, text_chunk("c"), USAGE)
    assert turn_task.leases.renew_turn(lost)
    assert turn_task.snapshot.attempt.lease_left > 0


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


def test_a_live_lease_is_not_voided(turn_task: TaskUnderTest) -> None:
    claim = turn_task.claim("me")
    before = turn_task.snapshot
    for token in ("", "you"):
        assert turn_task.leases.restart_turn(TASK, claim.assignment.epoch, status_event("again"), token) is None
    assert (turn_task.snapshot.position.epoch, turn_task.snapshot.attempt.number, turn_task.event_log()) == (
        before.position.epoch,
        1,
        [],
    )
    assert emit_chunk(turn_task.leases, claim, 1, text_chunk("c"), USAGE)


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


def test_the_owner_may_void_its_live_lease(turn_task: TaskUnderTest) -> None:
    claim = turn_task.claim("me")
    epoch = turn_task.leases.restart_turn(TASK, claim.assignment.epoch, status_event("again"), "me")
    assert (epoch, turn_task.snapshot.attempt.number, turn_task.snapshot.attempt.claimed) == (
        turn_task.snapshot.position.epoch,
        2,
        False,
    )
    assert turn_task.event_log() == [(1, 0, "again")]


def test_an_unclaimed_turn_may_be_voided(turn_task: TaskUnderTest) -> None:
    assert (
        turn_task.leases.restart_turn(TASK, turn_task.snapshot.position.epoch, status_event("again"))
        == turn_task.snapshot.position.epoch
    )
    assert turn_task.snapshot.attempt.number == 2
    assert turn_task.leases.restart_turn("another", turn_task.snapshot.position.epoch, status_event("again")) is None


def test_one_of_many_restarts_wins(redis_task: TaskOnRedis) -> None:
    redis_task.create()
    redis_task.record_decision()
    lost = redis_task.let_claim_expire()
    barrier = threading.Barrier(8)

    def restart(_: int) -> int | None:
        barrier.wait()
        return redis_task.leases.restart_turn(TASK, lost.assignment.epoch, status_event("again"))

    with ThreadPoolExecutor(8) as pool:
        assert len(list(filter(None, pool.map(restart, range(8))))) == 1
    assert redis_task.snapshot.attempt.number == 2
    assert redis_task.event_log() == [(1, 0, "again")]


def test_the_time_of_dispatch_is_updated_by_a_redelivery_that_dispatches(turn_task: TaskUnderTest) -> None:
    epoch, dispatched = turn_task.snapshot.position.epoch, turn_task.snapshot.position.dispatched_at
    assert dispatched > 1_700_000_000
    turn_task.pass_time(1.1)
    turn_task.leases.count_redelivery(TASK, epoch, False)
    assert turn_task.snapshot.position.dispatched_at == dispatched
    turn_task.leases.count_redelivery(TASK, epoch, True)
    assert turn_task.snapshot.position.dispatched_at > dispatched


def test_redeliveries_are_counted(turn_task: TaskUnderTest) -> None:
    epoch = turn_task.snapshot.position.epoch
    assert [turn_task.leases.count_redelivery(TASK, epoch, False) for _ in range(3)] == [1, 2, 3]
    assert turn_task.snapshot.position.redeliveries == 3
    assert turn_task.leases.count_redelivery(TASK, epoch - 1, False) == 0
    assert turn_task.leases.count_redelivery("another", epoch, False) == 0
    assert turn_task.snapshot.position.redeliveries == 3


def test_logged_messages_are_published(redis_task: TaskOnRedis) -> None:
    keys = redis_task.keys
    channels = [keys.content(TASK), keys.events(TASK)]
    client: Any = redis_task.client
    with client.pubsub() as pubsub:
        pubsub.subscribe(*channels)
        confirmed: list[Any] = [pubsub.get_message(timeout=60) for _ in channels]
        assert [one["type"] for one in confirmed] == ["subscribe", "subscribe"]
        redis_task.create(1, status_event("a"))
        redis_task.record_decision()
        claim = redis_task.claim()
        emit_chunk(redis_task.leases, claim, 1, text_chunk("b"), USAGE)
        redis_task.leases.restart_turn(TASK, claim.assignment.epoch, status_event("c"), "me")
        messages: list[Any] = [pubsub.get_message(timeout=60) for _ in range(3)]
    received = [(message["channel"], message["data"]) for message in messages]
    logged = [(channel, data) for channel in channels for _, data in redis_task.logs.entries(channel, 0)]
    assert sorted(received) == sorted(logged)
    assert keys.content("task_17").endswith(":{task_17}:content")


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


def test_the_workers_that_declined_a_turn_are_kept_until_the_fence_moves(turn_task: TaskUnderTest) -> None:
    event = status_event("declined")
    for worker in ("a@x", "b@x"):
        claim = turn_task.leases.claim_turn(turn_task.turn_assignment(), worker, 10)
        assert claim is not None
        assert turn_task.leases.defer_turn(claim, 0.0, event, False, declined_by=worker)
        assert turn_task.leases.count_redelivery(TASK, turn_task.snapshot.position.epoch, True)
    assert turn_task.snapshot.refusals.declined == Declined(2, ("a@x", "b@x"))
    claim = turn_task.claim()
    assert claim.snapshot.refusals.declined == Declined(2, ("a@x", "b@x"))
    assert turn_task.leases.defer_turn(claim, 0.0, event, True)
    assert turn_task.snapshot.refusals.declined.count == 2, "a refusal by the model server is no decline by the worker"
    turn_task.record_decision()
    assert turn_task.snapshot.refusals.declined == Declined()
