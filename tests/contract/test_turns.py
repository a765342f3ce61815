"""Leases on turns, and what is said in them."""

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
from tests.contract.a_task import LONG, SHORT, ATask
from tests.contract.emitted import emitted
from tests.contract.samples import TASK, USED, said, told
from tests.contract.task_on_redis import TaskOnRedis


@pytest.fixture
def turn(task: ATask) -> ATask:
    """A task with a pending turn that nobody took."""
    task.create(3)
    task.choose()
    return task


def test_a_claim_shows_the_task(turn: ATask) -> None:
    order = turn.order()
    claim = turn.turns.claim(order, "me", 2)
    assert claim is not None
    assert (claim.assignment, claim.token) == (order, "me")
    assert (claim.snapshot.phase, claim.snapshot.agent, claim.snapshot.seq) == (Phase.TURN, "writer", 3)
    assert (list(claim.snapshot.tail), claim.snapshot.first) == (turn.steps[-2:], turn.steps[0])
    assert claim.snapshot.state == turn.now.state
    assert claim.snapshot.claimed
    assert turn.now.claimed
    assert LONG - 10 < turn.now.lease_left <= LONG


@pytest.mark.parametrize("field", ["epoch", "seq", "attempt"])
@pytest.mark.parametrize("by", [-1, 1])
def test_a_claim_needs_the_pending_turn(turn: ATask, field: str, by: int) -> None:
    order = turn.order()
    assert turn.turns.claim(replace(order, **{field: getattr(order, field) + by}), "me", 10) is None
    assert not turn.now.claimed
    assert turn.turns.claim(replace(order, task_id="another"), "me", 10) is None


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.TURN])
def test_nothing_but_a_turn_is_claimed(task: ATask, phase: Phase) -> None:
    task.create()
    if phase is not Phase.UNDECIDED:
        task.choose(phase)
    assert task.turns.claim(task.order(), "me", 10) is None
    assert not task.now.claimed


def test_an_attempt_is_claimed_once(turn: ATask) -> None:
    order = turn.order()
    claim = turn.claim("me")
    assert turn.turns.claim(order, "you", 10) is None
    assert turn.turns.claim(order, "me", 10) == claim, "our own answer was lost"


def test_an_attempt_is_not_claimed_again_when_its_lease_has_ended(turn: ATask) -> None:
    lost = turn.lose_claim()
    assert (turn.now.claimed, turn.now.lease_left) == (True, 0.0)
    assert turn.turns.claim(lost.assignment, "you", 10) is None


def test_one_of_many_claims_wins(redis_task: TaskOnRedis) -> None:
    redis_task.create()
    redis_task.choose()
    together = threading.Barrier(8)
    order = redis_task.order()

    def claim(number: int) -> TurnClaim | None:
        together.wait()
        return redis_task.turns.claim(order, str(number), 1)

    with ThreadPoolExecutor(8) as pool:
        [winner] = filter(None, pool.map(claim, range(8)))
    assert redis_task.turns.renew(winner)


def test_chunks_are_numbered_without_gaps(turn: ATask) -> None:
    claim = turn.claim()
    for number in (1, 2, 2, 1, 3, 3):
        assert emitted(turn.turns, claim, number, said(f"c{number}"), USED)
    assert turn.said() == [(1, 0, "c1"), (2, 0, "c2"), (3, 0, "c3")]


def test_chunks_keep_what_they_say(redis_task: TaskOnRedis) -> None:
    redis_task.create()
    redis_task.choose()
    claim = redis_task.claim()
    texts = ['"quoted"', "\\", "ü漢\U0001f600", "\n\r\t\u2028\x00", "{} %s ", ""]
    for number, text in enumerate(texts, start=1):
        assert emitted(redis_task.turns, claim, number, said(text), USED)
    assert [text for _, _, text in redis_task.said()] == texts


def test_a_chunk_renews_the_lease(turn: ATask) -> None:
    brief = turn.brief_turns.claim(turn.order(), "me", 10)
    assert brief is not None
    assert emitted(turn.turns, brief, 1, said("c"), USED)
    assert turn.now.lease_left > SHORT
    turn.brief_turns.renew(brief)
    assert turn.now.lease_left <= SHORT
    assert emitted(turn.turns, brief, 1, said("c"), USED)
    assert turn.now.lease_left > SHORT, "a repeated chunk renews too"


def test_a_lease_is_renewed(turn: ATask) -> None:
    claim = turn.brief_turns.claim(turn.order(), "me", 10)
    assert claim is not None
    assert turn.turns.renew(claim)
    assert turn.now.lease_left > SHORT
    turn.outlive(SHORT)
    assert turn.turns.restart(TASK, claim.assignment.epoch, told("again")) is None


def test_a_late_owner_goes_on_if_nobody_took_the_turn(turn: ATask) -> None:
    lost = turn.lose_claim()
    assert emitted(turn.turns, lost, 1, said("c"), USED)
    assert turn.turns.renew(lost)
    assert turn.now.lease_left > 0


def test_only_the_owner_speaks_and_renews(turn: ATask) -> None:
    mine = turn.claim("me")
    yours = replace(mine, token="you")
    assert not emitted(turn.turns, yours, 1, said("c"), USED)
    assert not turn.turns.renew(yours)
    assert not emitted(turn.turns, replace(mine, token=""), 1, said("c"), USED)
    assert turn.said() == []


@pytest.mark.parametrize("move", ["choose", "commit", "restart"])
def test_everything_is_refused_once_the_fence_has_moved(turn: ATask, move: str) -> None:
    claim = turn.claim()
    moves: dict[str, Callable[[], object]] = {
        "choose": turn.choose,
        "commit": turn.commit,
        "restart": lambda: turn.turns.restart(TASK, claim.assignment.epoch, told("again"), "me"),
    }
    assert moves[move]()
    before, events = turn.now, turn.told()
    assert turn.turns.claim(claim.assignment, "me", 10) is None
    assert not emitted(turn.turns, claim, 1, said("late"), USED)
    assert not turn.turns.renew(claim)
    assert turn.turns.restart(TASK, claim.assignment.epoch, told("late")) is None
    assert turn.turns.restart(TASK, claim.assignment.epoch, told("late"), "me") is None
    assert turn.turns.count_redelivery(TASK, claim.assignment.epoch, False) == 0
    assert (turn.now, turn.told(), turn.said()) == (before, events, [])


def test_a_live_lease_is_not_voided(turn: ATask) -> None:
    claim = turn.claim("me")
    before = turn.now
    for token in ("", "you"):
        assert turn.turns.restart(TASK, claim.assignment.epoch, told("again"), token) is None
    assert (turn.now.epoch, turn.now.attempt, turn.told()) == (before.epoch, 1, [])
    assert emitted(turn.turns, claim, 1, said("c"), USED)


def test_a_lost_attempt_is_voided(turn: ATask) -> None:
    lost = turn.lose_claim()
    assert emitted(turn.turns, lost, 1, said("one"), USED)
    turn.brief_turns.renew(lost)
    turn.turns.count_redelivery(TASK, lost.assignment.epoch, False)
    turn.outlive(SHORT)
    epoch = turn.turns.restart(TASK, lost.assignment.epoch, told("again"))
    now = turn.now
    assert epoch == now.epoch
    assert epoch > lost.assignment.epoch
    assert (now.attempt, now.claimed, now.redeliveries, now.phase, now.agent) == (2, False, 0, Phase.TURN, "writer")
    assert turn.told() == [(1, 1, "again")]
    again = turn.turns.claim(TurnAssignment(TASK, 3, epoch, 2), "you", 10)
    assert again is not None
    assert emitted(turn.turns, again, 1, said("two", attempt=2), USED)
    assert not emitted(turn.turns, lost, 2, said("late"), USED)
    assert turn.said() == [(1, 0, "one"), (2, 1, "two")]


def test_what_void_answers_have_used_is_kept_until_their_step(turn: ATask) -> None:
    claim = turn.claim("me")
    assert turn.now.unfinished_usage == TokenUsage()
    assert emitted(turn.turns, claim, 1, said("a"), TokenUsage(100, 1))
    assert emitted(turn.turns, claim, 2, said("b"), TokenUsage(100, 2))
    assert emitted(turn.turns, claim, 1, said("a"), TokenUsage(100, 1))
    assert turn.now.unfinished_usage == TokenUsage(100, 2)
    again: TurnClaim | None = None
    for attempt in (2, 3):  # the second is lost before its first word
        epoch = turn.turns.restart(TASK, turn.now.epoch, told("again"), "me")
        assert epoch is not None
        assert turn.now.unfinished_usage == TokenUsage(100, 2)
        again = turn.turns.claim(TurnAssignment(TASK, 3, epoch, attempt), "me", 10)
        assert again is not None
        assert again.snapshot.unfinished_usage == TokenUsage(100, 2)
    assert again is not None
    assert emitted(turn.turns, again, 1, said("c"), TokenUsage(90, 3))
    assert turn.now.unfinished_usage == TokenUsage(190, 5)
    turn.commit()
    assert turn.now.unfinished_usage == TokenUsage()
    turn.choose()
    assert turn.now.unfinished_usage == TokenUsage()


def test_the_owner_may_give_up_a_live_lease(turn: ATask) -> None:
    claim = turn.claim("me")
    epoch = turn.turns.restart(TASK, claim.assignment.epoch, told("again"), "me")
    assert (epoch, turn.now.attempt, turn.now.claimed) == (turn.now.epoch, 2, False)
    assert turn.told() == [(1, 0, "again")]


def test_a_turn_that_nobody_took_may_be_voided(turn: ATask) -> None:
    assert turn.turns.restart(TASK, turn.now.epoch, told("again")) == turn.now.epoch
    assert turn.now.attempt == 2
    assert turn.turns.restart("another", turn.now.epoch, told("again")) is None


def test_one_of_many_restarts_wins(redis_task: TaskOnRedis) -> None:
    redis_task.create()
    redis_task.choose()
    lost = redis_task.lose_claim()
    together = threading.Barrier(8)

    def restart(_: int) -> int | None:
        together.wait()
        return redis_task.turns.restart(TASK, lost.assignment.epoch, told("again"))

    with ThreadPoolExecutor(8) as pool:
        assert len(list(filter(None, pool.map(restart, range(8))))) == 1
    assert redis_task.now.attempt == 2
    assert redis_task.told() == [(1, 0, "again")]


def test_a_choice_is_handed_out_when_it_is_written_down_and_when_it_is_announced_again(turn: ATask) -> None:
    epoch, handed = turn.now.epoch, turn.now.dispatched_at
    assert handed > 1_700_000_000
    turn.outlive(1.1)
    turn.turns.count_redelivery(TASK, epoch, False)
    assert turn.now.dispatched_at == handed
    turn.turns.count_redelivery(TASK, epoch, True)
    assert turn.now.dispatched_at > handed


def test_rings_are_counted(turn: ATask) -> None:
    epoch = turn.now.epoch
    assert [turn.turns.count_redelivery(TASK, epoch, False) for _ in range(3)] == [1, 2, 3]
    assert turn.now.redeliveries == 3
    assert turn.turns.count_redelivery(TASK, epoch - 1, False) == 0
    assert turn.turns.count_redelivery("another", epoch, False) == 0
    assert turn.now.redeliveries == 3


def test_what_is_logged_is_published(redis_task: TaskOnRedis) -> None:
    keys = redis_task.keys
    channels = [keys.content(TASK), keys.events(TASK)]
    client: Any = redis_task.client
    with client.pubsub() as pubsub:
        pubsub.subscribe(*channels)
        confirmed: list[Any] = [pubsub.get_message(timeout=5) for _ in channels]
        assert [one["type"] for one in confirmed] == ["subscribe", "subscribe"]
        redis_task.create(1, told("a"))
        redis_task.choose()
        claim = redis_task.claim()
        emitted(redis_task.turns, claim, 1, said("b"), USED)
        redis_task.turns.restart(TASK, claim.assignment.epoch, told("c"), "me")
        messages: list[Any] = [pubsub.get_message(timeout=5) for _ in range(3)]
    heard = [(message["channel"], message["data"]) for message in messages]
    logged = [(channel, data) for channel in channels for _, data in redis_task.logs.entries(channel, 0)]
    assert sorted(heard) == sorted(logged)
    assert keys.content("task_17").endswith(":{task_17}:content")


def test_without_an_answer(unreachable_task: TaskOnRedis) -> None:
    turns = unreachable_task.turns
    order = TurnAssignment(TASK, 1, 1, 1)
    claim = TurnClaim(order, "me", None)  # type: ignore[arg-type]  # nothing of the task is asked for
    uses: list[Callable[[], object]] = [
        lambda: turns.claim(order, "me", 1),
        lambda: emitted(turns, claim, 1, said("c"), USED),
        lambda: turns.renew(claim),
        lambda: turns.restart(TASK, 1, told("again")),
        lambda: turns.count_redelivery(TASK, 1, False),
    ]
    for use in uses:
        with pytest.raises(TransientError, match="redis does not answer"):
            use()


def test_workers_that_cannot_make_a_turn_are_known_until_the_fence_moves(turn: ATask) -> None:
    event = told("left to another worker")
    for worker in ("a@x", "b@x"):
        claim = turn.turns.claim(turn.order(), worker, 10)
        assert claim is not None
        assert turn.turns.defer(claim, 0.0, event, False, declined_by=worker)
        assert turn.turns.count_redelivery(TASK, turn.now.epoch, True)
    assert turn.now.declined == Declined(2, ("a@x", "b@x"))
    claim = turn.claim()
    assert claim.snapshot.declined == Declined(2, ("a@x", "b@x"))
    assert turn.turns.defer(claim, 0.0, event, True)
    assert turn.now.declined.count == 2, "the model's server refused it, and the worker could make it"
    turn.choose()
    assert turn.now.declined == Declined()
