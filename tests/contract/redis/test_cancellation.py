"""Inbox items that interrupt: they request the cancellation of the pending turn or calls."""

import pytest

from roboco.ports.lease_renewals import LeaseStatus
from roboco.ports.task_store import Phase
from tests.contract.redis.chunk_emission import emit_chunk
from tests.contract.redis.task_under_test import TaskUnderTest
from tests.contract.samples import TASK, USAGE, text_chunk


@pytest.fixture
def turn_task(task: TaskUnderTest) -> TaskUnderTest:
    """Return a task with a pending turn that no worker has claimed."""
    task.create(3)
    task.record_decision()
    return task


def test_an_interrupt_requests_the_cancellation_of_the_turn(turn_task: TaskUnderTest) -> None:
    claim = turn_task.claim()
    assert emit_chunk(turn_task.leases, claim, 1, text_chunk("a"), USAGE) is LeaseStatus.HELD
    assert turn_task.leases.renew_turn(claim) is LeaseStatus.HELD
    assert turn_task.leases.cancel_request(claim) is None
    turn_task.inbox.add(TASK, ["stop"], interrupt=True)
    assert turn_task.leases.renew_turn(claim) is LeaseStatus.CANCEL_REQUESTED
    assert emit_chunk(turn_task.leases, claim, 2, text_chunk("b"), USAGE) is LeaseStatus.CANCEL_REQUESTED
    assert emit_chunk(turn_task.leases, claim, 2, text_chunk("b"), USAGE) is LeaseStatus.CANCEL_REQUESTED
    request = turn_task.leases.cancel_request(claim)
    assert request is not None
    assert request.emitted_chunks == 1
    assert turn_task.snapshot.attempt.cancel_requested_for is not None
    assert [text for _, _, text in turn_task.chunk_log()] == ["a", "b"]


def test_a_turn_with_a_request_to_cancel_is_not_claimed(turn_task: TaskUnderTest) -> None:
    turn_task.inbox.add(TASK, ["stop"], interrupt=True)
    assert turn_task.leases.claim_turn(turn_task.turn_assignment(), "me", 10) is None
    assert not turn_task.snapshot.attempt.claimed


def test_a_request_to_cancel_ends_with_its_epoch(turn_task: TaskUnderTest) -> None:
    claim = turn_task.claim()
    turn_task.inbox.add(TASK, ["stop"], interrupt=True)
    assert turn_task.commit()
    assert turn_task.leases.renew_turn(claim) is LeaseStatus.LOST
    assert turn_task.leases.cancel_request(claim) is not None, (
        "the late worker still reads the request for its own epoch"
    )
    turn_task.record_decision()
    assert turn_task.snapshot.attempt.cancel_requested_for is None
    assert turn_task.leases.renew_turn(turn_task.claim()) is LeaseStatus.HELD


def test_an_interrupt_with_an_epoch_cancels_only_the_work_of_that_epoch(turn_task: TaskUnderTest) -> None:
    claim = turn_task.claim()
    turn_task.inbox.add(TASK, ["stop"], interrupt=True, epoch=claim.assignment.epoch - 1)
    assert turn_task.leases.renew_turn(claim) is LeaseStatus.HELD
    assert list(turn_task.snapshot.item_ids) == ["stop"]
    turn_task.inbox.add(TASK, [], interrupt=True, epoch=claim.assignment.epoch)
    assert turn_task.leases.renew_turn(claim) is LeaseStatus.CANCEL_REQUESTED


def test_a_call_with_a_request_to_cancel_is_not_claimed(task: TaskUnderTest) -> None:
    task.create()
    task.record_decision(Phase.TOOLS)
    assert task.leases.claim_call(task.tool_assignment("tc_1"), "me")
    task.inbox.add(TASK, ["stop"], interrupt=True)
    assert not task.leases.claim_call(task.tool_assignment("tc_2"), "me")
    assert task.leases.claim_call(task.tool_assignment("tc_1"), "me"), "the first reply was lost"
    assert task.leases.renew_call(task.tool_assignment("tc_1"), "me")
    task.inbox.clear_cancellation(TASK, task.snapshot.position.epoch)
    assert task.leases.claim_call(task.tool_assignment("tc_2"), "me")
