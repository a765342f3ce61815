"""Leases on tool calls, and their outcomes."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from roboco.domain.history.part import Artifact, ToolResult
from roboco.domain.history.tool_outcome import ToolOutcome, failed_outcome
from roboco.errors import TransientError
from roboco.ports.assignment import ToolAssignment
from roboco.ports.task_store import CallState, Declined, Phase
from tests.contract.a_task import LONG, SHORT, ATask
from tests.contract.samples import TASK, told
from tests.contract.task_on_redis import TaskOnRedis

OUTCOME = ToolOutcome(
    result=ToolResult(tool_call_id="tc_1", result={"ü": [None, 1.5, '"']}, runtime_ms=7),
    artifacts=(Artifact(artifact_id="a", uri="file://artifacts/a.txt", mime_type="text/plain", size=3),),
)
LATE = failed_outcome("tc_1", "late")


@pytest.fixture
def tools(task: ATask) -> ATask:
    """A task whose last step's calls were handed out."""
    task.create(3)
    task.choose(Phase.TOOLS)
    return task


def lost(tools: ATask, call_id: str = "tc_1", attempt: int = 1) -> ToolAssignment:
    """The order of a call whose lease has ended."""
    order = tools.call(call_id, attempt)
    assert tools.brief_calls.claim(order, "lost")
    tools.outlive(SHORT)
    return order


def test_an_attempt_is_claimed_once(tools: ATask) -> None:
    order = tools.call()
    assert tools.calls.claim(order, "me")
    assert not tools.calls.claim(order, "you")
    assert tools.calls.claim(order, "me"), "our own answer was lost"
    state = tools.now.calls["tc_1"]
    assert (state.attempt, state.claimed, state.outcome) == (1, True, None)
    assert LONG - 10 < state.lease_left <= LONG


def test_each_call_stands_alone(tools: ATask) -> None:
    assert tools.calls.claim(tools.call("tc_1"), "me")
    assert tools.calls.claim(tools.call("tc_2"), "you")
    assert tools.calls.record_outcome(tools.call("tc_2"), "you", OUTCOME, told("2")) == 1
    assert tools.now.calls["tc_1"].outcome is None
    assert tools.calls.renew(tools.call("tc_1"), "me")
    assert not tools.calls.renew(tools.call("tc_1"), "you")
    assert tools.calls.record_outcome(tools.call("tc_1"), "me", OUTCOME, told("1")) == 2


@pytest.mark.parametrize(("field", "by"), [("epoch", -1), ("epoch", 1), ("attempt", -1), ("attempt", 1)])
def test_a_claim_needs_the_pending_call(tools: ATask, field: str, by: int) -> None:
    order = tools.call()
    assert not tools.calls.claim(replace(order, **{field: getattr(order, field) + by}), "me")
    assert not tools.calls.claim(replace(order, task_id="another"), "me")
    assert tools.calls.claim(order, "me")


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.TOOLS])
def test_nothing_is_claimed_while_no_calls_are_handed_out(task: ATask, phase: Phase) -> None:
    task.create()
    if phase is not Phase.UNDECIDED:
        task.choose(phase)
    assert not task.calls.claim(task.call(), "me")


def test_a_lost_worker_s_attempt_is_voided_at_once(tools: ATask) -> None:
    order = tools.call()
    assert tools.calls.claim(order, "lost")
    assert tools.calls.restart(order) is None
    assert tools.calls.restart(order, worker_lost=True) == 2
    assert tools.calls.restart(order, worker_lost=True) is None
    assert tools.calls.claim(tools.call(attempt=2), "you")
    assert not tools.calls.renew(order, "lost")
    assert tools.now.calls["tc_1"].lease_left > 0


def test_outcomes_are_kept_while_the_task_waits_for_others_and_has_others_run(tools: ATask) -> None:
    assert tools.calls.claim(tools.call(), "me")
    assert tools.calls.record_outcome(tools.call(), "me", OUTCOME, told("1")) == 1
    tools.choose(Phase.WAIT)
    assert tools.now.calls["tc_1"].outcome == OUTCOME
    assert not tools.calls.claim(tools.call("tc_2"), "me")
    tools.choose(Phase.TOOLS)
    assert tools.now.calls["tc_1"].outcome == OUTCOME
    assert not tools.calls.claim(tools.call(), "me")
    assert tools.calls.claim(tools.call("tc_2"), "me")
    tools.commit()
    assert tools.now.calls == {}


def test_an_attempt_is_not_claimed_again_when_its_lease_has_ended(tools: ATask) -> None:
    order = lost(tools)
    assert not tools.calls.claim(order, "you")
    state = tools.now.calls["tc_1"]
    assert (state.claimed, state.lease_left) == (True, 0.0)


def test_one_of_many_claims_wins(redis_task: TaskOnRedis) -> None:
    redis_task.create()
    redis_task.choose(Phase.TOOLS)
    together = threading.Barrier(8)
    order = redis_task.call()

    def claim(number: int) -> bool:
        together.wait()
        return redis_task.calls.claim(order, str(number))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(claim, range(8))).count(True) == 1


def test_a_lease_is_renewed(tools: ATask) -> None:
    order = tools.call()
    assert tools.brief_calls.claim(order, "me")
    assert tools.calls.renew(order, "me")
    assert tools.now.calls["tc_1"].lease_left > SHORT
    assert not tools.calls.renew(order, "you")
    assert not tools.calls.renew(tools.call("tc_2"), "me")
    tools.outlive(SHORT)
    assert tools.calls.restart(order) is None


def test_an_outcome_is_kept_once(tools: ATask) -> None:
    order = tools.call()
    assert tools.calls.claim(order, "me")
    assert tools.calls.record_outcome(order, "me", OUTCOME, told("result")) == 1
    assert tools.calls.record_outcome(order, "me", LATE, told("late")) == 1
    assert tools.calls.record_outcome(order, None, LATE, told("late")) == 1
    assert tools.now.calls == {"tc_1": CallState(attempt=1, claimed=True, outcome=OUTCOME)}
    assert tools.told() == [(1, 0, "result")]
    assert not tools.calls.claim(order, "you")
    assert not tools.calls.claim(order, "me")
    assert tools.calls.restart(order) is None


def test_only_the_owner_records(tools: ATask) -> None:
    order = tools.call()
    assert tools.calls.record_outcome(order, "me", OUTCOME, told("not claimed")) is None
    assert tools.calls.claim(order, "me")
    assert tools.calls.record_outcome(order, "you", OUTCOME, told("not yours")) is None
    assert tools.now.calls["tc_1"].outcome is None
    assert tools.told() == []


@pytest.mark.parametrize("claimed", [True, False])
def test_a_call_whose_time_is_up_is_closed_whoever_has_it(tools: ATask, claimed: bool) -> None:
    order = tools.call()
    if claimed:
        assert tools.calls.claim(order, "me")
    assert tools.calls.record_outcome(order, None, LATE, told("closed")) == 1
    assert tools.now.calls["tc_1"].outcome == LATE
    assert tools.calls.record_outcome(order, "me", OUTCOME, told("late")) == (1 if claimed else None)
    assert tools.now.calls["tc_1"].outcome == LATE
    assert tools.told() == [(1, 0, "closed")]
    assert not tools.calls.claim(order, "you")


def test_who_records_last_is_told_so(redis_task: TaskOnRedis) -> None:
    """Workers of one step's calls finish together: exactly one of them sees that all are in."""
    redis_task.create()
    redis_task.choose(Phase.TOOLS)
    together = threading.Barrier(8)
    orders = [redis_task.call(f"tc_{number}") for number in range(8)]

    def work(order: ToolAssignment) -> int | None:
        assert redis_task.calls.claim(order, "me")
        together.wait()
        return redis_task.calls.record_outcome(order, "me", OUTCOME, told(order.call_id))

    with ThreadPoolExecutor(8) as pool:
        assert sorted(found or 0 for found in pool.map(work, orders)) == list(range(1, 9))
    assert [seq for seq, _, _ in redis_task.told()] == list(range(1, 9))


def test_a_lost_attempt_is_voided(tools: ATask) -> None:
    order = lost(tools)
    assert tools.calls.restart(order) == 2
    state = tools.now.calls["tc_1"]
    assert (state.attempt, state.claimed, state.lease_left) == (2, False, 0.0)
    again = tools.call("tc_1", attempt=2)
    assert not tools.calls.renew(order, "lost")
    assert tools.calls.record_outcome(order, "lost", LATE, told("late")) is None
    assert tools.calls.record_outcome(order, None, LATE, told("late")) is None
    assert not tools.calls.claim(order, "lost")
    assert tools.calls.claim(again, "you")
    assert tools.calls.record_outcome(order, "lost", LATE, told("late")) is None
    assert tools.calls.record_outcome(again, "you", OUTCOME, told("result")) == 1
    assert tools.told() == [(1, 0, "result")]


def test_attempts_are_counted(tools: ATask) -> None:
    for attempt in (1, 2, 3):
        order = lost(tools, attempt=attempt)
        tools.calls.restart(order)
        assert tools.now.calls["tc_1"].attempt == attempt + 1
    assert tools.now.epoch == order.epoch


def test_there_is_nothing_to_void(tools: ATask) -> None:
    order = tools.call()
    assert tools.calls.restart(order) is None, "nobody took it"
    assert tools.calls.claim(order, "me")
    assert tools.calls.restart(order) is None, "its lease lives"
    assert tools.calls.restart(replace(order, attempt=2)) is None
    assert tools.calls.restart(replace(order, epoch=order.epoch - 1)) is None
    assert tools.now.calls["tc_1"].attempt == 1


def test_a_late_owner_records_if_nobody_voided_its_attempt(tools: ATask) -> None:
    order = lost(tools)
    assert tools.calls.renew(order, "lost")
    assert tools.calls.record_outcome(order, "lost", OUTCOME, told("result")) == 1


@pytest.mark.parametrize("move", ["choose", "commit", "restart"])
def test_everything_is_refused_once_the_fence_has_moved(tools: ATask, move: str) -> None:
    order = tools.call()
    assert tools.brief_calls.claim(order, "me")
    tools.outlive(SHORT)
    moves: dict[str, Callable[[], object]] = {
        "choose": lambda: tools.choose(Phase.TOOLS),
        "commit": tools.commit,
        "restart": lambda: tools.turns.restart(TASK, order.epoch, told("again")),
    }
    assert moves[move]()
    before, events = tools.now, tools.told()
    assert not tools.calls.claim(order, "me")
    assert not tools.calls.renew(order, "me")
    assert tools.calls.record_outcome(order, "me", OUTCOME, told("late")) is None
    assert tools.calls.record_outcome(order, None, OUTCOME, told("late")) is None
    assert tools.calls.restart(order) is None
    assert (tools.now, tools.told()) == (before, events)


def test_without_an_answer(unreachable_task: TaskOnRedis) -> None:
    calls = unreachable_task.calls
    order = ToolAssignment(TASK, 1, 1, "tc_1", 1)
    uses: list[Callable[[], object]] = [
        lambda: calls.claim(order, "me"),
        lambda: calls.renew(order, "me"),
        lambda: calls.record_outcome(order, "me", OUTCOME, told("a")),
        lambda: calls.restart(order),
    ]
    for use in uses:
        with pytest.raises(TransientError, match="redis does not answer"):
            use()


def test_workers_that_cannot_run_a_call_are_known_until_the_fence_moves(tools: ATask) -> None:
    order = tools.call()
    for worker in ("a@x", "b@x", "a@x"):
        assert tools.calls.claim(order, worker)
        tools.calls.release(order, worker, declined_by=worker)
    assert tools.now.calls["tc_1"] == CallState(declined=Declined(3, ("a@x", "b@x")))
    assert tools.calls.claim(order, "me")
    tools.calls.release(order, "me")
    assert tools.now.calls["tc_1"].declined.count == 3, "a worker that can run it was not counted"
    tools.choose(Phase.WAIT)
    tools.choose(Phase.TOOLS)
    assert tools.now.calls["tc_1"].declined == Declined()
    assert tools.calls.claim(tools.call(), "me")
    tools.calls.release(tools.call(), "me", declined_by="c@x")
    assert tools.now.calls["tc_1"].declined == Declined(1, ("c@x",))


def test_a_worker_that_declines_a_call_last_is_known_however_often_others_did(tools: ATask) -> None:
    order = tools.call()
    for number in range(40):
        assert tools.calls.claim(order, f"t{number}")
        tools.calls.release(order, f"t{number}", declined_by="a@x" if number < 39 else "b@x")
    assert tools.now.calls["tc_1"].declined == Declined(40, ("a@x", "b@x"))
