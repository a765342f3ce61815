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
from roboco.ports.task_store import CallState, Phase
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import LONG_LEASE, SHORT_LEASE, TaskUnderTest
from tests.contract.samples import TASK, status_event

OUTCOME = ToolOutcome(
    result=ToolResult(tool_call_id="tc_1", result={"ü": [None, 1.5, '"']}, runtime_ms=7),
    artifacts=(Artifact(artifact_id="a", uri="file://artifacts/a.txt", mime_type="text/plain", size=3),),
)
LATE_OUTCOME = failed_outcome("tc_1", "late")


@pytest.fixture
def tools_task(task: TaskUnderTest) -> TaskUnderTest:
    """Return a task in the phase TOOLS, whose last step has calls."""
    task.create(3)
    task.record_decision(Phase.TOOLS)
    return task


def let_claim_expire(tools_task: TaskUnderTest, call_id: str = "tc_1", attempt: int = 1) -> ToolAssignment:
    """Claim a call, let the lease expire, and return the assignment."""
    assignment = tools_task.tool_assignment(call_id, attempt)
    assert tools_task.short_lease.claim_call(assignment, "lost")
    tools_task.pass_time(SHORT_LEASE)
    return assignment


def test_an_attempt_is_claimed_once(tools_task: TaskUnderTest) -> None:
    assignment = tools_task.tool_assignment()
    assert tools_task.leases.claim_call(assignment, "me")
    assert not tools_task.leases.claim_call(assignment, "you")
    assert tools_task.leases.claim_call(assignment, "me"), "the first reply was lost"
    state = tools_task.snapshot.calls["tc_1"]
    assert (state.attempt, state.claimed, state.outcome) == (1, True, None)
    assert LONG_LEASE - 10 < state.lease_left <= LONG_LEASE


@pytest.mark.parametrize(("field", "by"), [("epoch", -1), ("epoch", 1), ("attempt", -1), ("attempt", 1)])
def test_a_claim_with_another_epoch_or_attempt_is_refused(tools_task: TaskUnderTest, field: str, by: int) -> None:
    assignment = tools_task.tool_assignment()
    assert not tools_task.leases.claim_call(replace(assignment, **{field: getattr(assignment, field) + by}), "me")
    assert not tools_task.leases.claim_call(replace(assignment, task_id="another"), "me")
    assert tools_task.leases.claim_call(assignment, "me")


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.TOOLS])
def test_a_call_is_claimed_only_in_the_phase_tools(task: TaskUnderTest, phase: Phase) -> None:
    task.create()
    if phase is not Phase.UNDECIDED:
        task.record_decision(phase)
    assert not task.leases.claim_call(task.tool_assignment(), "me")


def test_an_attempt_is_not_claimed_again_when_its_lease_has_ended(tools_task: TaskUnderTest) -> None:
    assignment = let_claim_expire(tools_task)
    assert not tools_task.leases.claim_call(assignment, "you")
    state = tools_task.snapshot.calls["tc_1"]
    assert (state.claimed, state.lease_left) == (True, 0.0)


def test_one_of_many_claims_wins(redis_task: TaskOnRedis) -> None:
    redis_task.create()
    redis_task.record_decision(Phase.TOOLS)
    barrier = threading.Barrier(8)
    assignment = redis_task.tool_assignment()

    def claim(number: int) -> bool:
        barrier.wait()
        return redis_task.leases.claim_call(assignment, str(number))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(claim, range(8))).count(True) == 1


def test_an_outcome_is_recorded_once(tools_task: TaskUnderTest) -> None:
    assignment = tools_task.tool_assignment()
    assert tools_task.leases.claim_call(assignment, "me")
    assert tools_task.leases.record_outcome(assignment, "me", OUTCOME, status_event("result")) == 1
    assert tools_task.leases.record_outcome(assignment, "me", LATE_OUTCOME, status_event("late")) == 1
    assert tools_task.leases.record_outcome(assignment, None, LATE_OUTCOME, status_event("late")) == 1
    assert tools_task.snapshot.calls == {"tc_1": CallState(attempt=1, claimed=True, outcome=OUTCOME)}
    assert tools_task.event_log() == [(1, 0, "result")]
    assert not tools_task.leases.claim_call(assignment, "you")
    assert not tools_task.leases.claim_call(assignment, "me")
    assert tools_task.leases.restart_call(assignment) is None


@pytest.mark.parametrize("claimed", [True, False])
def test_an_outcome_without_a_token_closes_any_call(tools_task: TaskUnderTest, claimed: bool) -> None:
    assignment = tools_task.tool_assignment()
    if claimed:
        assert tools_task.leases.claim_call(assignment, "me")
    assert tools_task.leases.record_outcome(assignment, None, LATE_OUTCOME, status_event("closed")) == 1
    assert tools_task.snapshot.calls["tc_1"].outcome == LATE_OUTCOME
    assert tools_task.leases.record_outcome(assignment, "me", OUTCOME, status_event("late")) == (1 if claimed else None)
    assert tools_task.snapshot.calls["tc_1"].outcome == LATE_OUTCOME
    assert tools_task.event_log() == [(1, 0, "closed")]
    assert not tools_task.leases.claim_call(assignment, "you")


def test_a_lost_attempt_is_voided(tools_task: TaskUnderTest) -> None:
    assignment = let_claim_expire(tools_task)
    assert tools_task.leases.restart_call(assignment) == 2
    state = tools_task.snapshot.calls["tc_1"]
    assert (state.attempt, state.claimed, state.lease_left) == (2, False, 0.0)
    again = tools_task.tool_assignment("tc_1", attempt=2)
    assert not tools_task.leases.renew_call(assignment, "lost")
    assert tools_task.leases.record_outcome(assignment, "lost", LATE_OUTCOME, status_event("late")) is None
    assert tools_task.leases.record_outcome(assignment, None, LATE_OUTCOME, status_event("late")) is None
    assert not tools_task.leases.claim_call(assignment, "lost")
    assert tools_task.leases.claim_call(again, "you")
    assert tools_task.leases.record_outcome(assignment, "lost", LATE_OUTCOME, status_event("late")) is None
    assert tools_task.leases.record_outcome(again, "you", OUTCOME, status_event("result")) == 1
    assert tools_task.event_log() == [(1, 0, "result")]


@pytest.mark.parametrize("move", ["choose", "commit", "restart"])
def test_everything_is_refused_once_the_fence_has_moved(tools_task: TaskUnderTest, move: str) -> None:
    assignment = tools_task.tool_assignment()
    assert tools_task.short_lease.claim_call(assignment, "me")
    tools_task.pass_time(SHORT_LEASE)
    moves: dict[str, Callable[[], object]] = {
        "choose": lambda: tools_task.record_decision(Phase.TOOLS),
        "commit": tools_task.commit,
        "restart": lambda: tools_task.leases.restart_turn(TASK, assignment.epoch, status_event("again")),
    }
    assert moves[move]()
    before, events = tools_task.snapshot, tools_task.event_log()
    assert not tools_task.leases.claim_call(assignment, "me")
    assert not tools_task.leases.renew_call(assignment, "me")
    assert tools_task.leases.record_outcome(assignment, "me", OUTCOME, status_event("late")) is None
    assert tools_task.leases.record_outcome(assignment, None, OUTCOME, status_event("late")) is None
    assert tools_task.leases.restart_call(assignment) is None
    assert (tools_task.snapshot, tools_task.event_log()) == (before, events)


def test_an_unreachable_redis_raises_a_transient_error(unreachable_task: TaskOnRedis) -> None:
    leases = unreachable_task.leases
    assignment = ToolAssignment(TASK, 1, 1, "tc_1", 1)
    uses: list[Callable[[], object]] = [
        lambda: leases.claim_call(assignment, "me"),
        lambda: leases.renew_call(assignment, "me"),
        lambda: leases.record_outcome(assignment, "me", OUTCOME, status_event("a")),
        lambda: leases.restart_call(assignment),
        lambda: leases.end_wait(assignment, ""),
    ]
    for use in uses:
        with pytest.raises(TransientError, match="redis does not answer"):
            use()


def release_waiting(tools_task: TaskUnderTest, call_id: str, reason: str) -> None:
    """Claim the call, and release it with this reason."""
    assignment = tools_task.tool_assignment(call_id)
    assert tools_task.leases.claim_call(assignment, f"of {call_id}")
    assert tools_task.leases.release_call(assignment, f"of {call_id}", event=status_event(reason))


def waits_of(tools_task: TaskUnderTest) -> tuple[str, list[str]]:
    """Return the reason of the task, and the ids of the calls that wait."""
    found = tools_task.snapshot
    return found.position.reason, sorted(call_id for call_id, call in found.calls.items() if call.waits)


def test_the_end_of_a_wait_is_dispatched_once_and_names_why_others_wait(tools_task: TaskUnderTest) -> None:
    release_waiting(tools_task, "tc_1", "one is off")
    release_waiting(tools_task, "tc_2", "two is off")
    assert waits_of(tools_task) == ("two is off", ["tc_1", "tc_2"])
    assert tools_task.leases.end_wait(tools_task.tool_assignment("tc_2"), "one is off")
    assert waits_of(tools_task) == ("one is off", ["tc_1"])
    assert not tools_task.leases.end_wait(tools_task.tool_assignment("tc_2"), ""), "it does not wait any more"
    assert not tools_task.leases.end_wait(tools_task.tool_assignment("tc_1", attempt=2), "")
    assert tools_task.leases.end_wait(tools_task.tool_assignment("tc_1"), "")
    assert waits_of(tools_task) == ("", [])
    assert tools_task.leases.claim_call(tools_task.tool_assignment("tc_1"), "me")
