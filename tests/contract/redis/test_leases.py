"""Leases on turns and tool calls: concurrent claims, several lengths of leases, and the end of waits."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from roboco.domain.history.part import ToolOutcome, ToolResult
from roboco.ports.snapshot import Phase
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


def test_a_chunk_renews_the_lease(turn_task: TaskUnderTest) -> None:
    brief = turn_task.short_lease.claim_turn(turn_task.turn_assignment(), "me", 10)
    assert brief is not None
    assert emit_chunk(turn_task.leases, brief, 1, text_chunk("c"), USAGE)
    assert turn_task.snapshot.attempt.lease_left > SHORT_LEASE
    turn_task.short_lease.renew(brief.lease)
    assert turn_task.snapshot.attempt.lease_left <= SHORT_LEASE
    assert emit_chunk(turn_task.leases, brief, 1, text_chunk("c"), USAGE)
    assert turn_task.snapshot.attempt.lease_left > SHORT_LEASE, "a repeated chunk renews the lease too"


def test_a_turn_that_was_cancelled_before_its_claim_is_not_claimed(turn_task: TaskUnderTest) -> None:
    turn_task.store.add_items(TASK, ["item"], block_claim=True)
    assert turn_task.leases.claim_turn(turn_task.turn_assignment(), "me", 10) is None


@pytest.fixture
def tools_task(task: TaskUnderTest) -> TaskUnderTest:
    """Return a task in the phase TOOLS, whose last step has calls."""
    task.create(3)
    task.record_decision(Phase.TOOLS)
    return task


def test_one_of_many_claims_of_a_call_wins(redis_task: TaskOnRedis) -> None:
    redis_task.create()
    redis_task.record_decision(Phase.TOOLS)
    barrier = threading.Barrier(8)
    assignment = redis_task.tool_assignment()

    def claim(number: int) -> bool:
        barrier.wait()
        return redis_task.leases.claim_call(assignment, str(number))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(claim, range(8))).count(True) == 1


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


def test_a_call_with_an_outcome_is_not_released(tools_task: TaskUnderTest) -> None:
    assignment = tools_task.tool_assignment("tc_1")
    outcome = ToolOutcome(result=ToolResult(tool_call_id="tc_1", result=1))
    assert tools_task.leases.claim_call(assignment, "me")
    assert tools_task.leases.record_outcome(assignment, "me", outcome, status_event("done")) == 1
    assert not tools_task.leases.release_call(assignment, "me")
    assert not tools_task.leases.claim_call(assignment, "other")
