"""Inbox items that interrupt: they request the cancellation of the pending turn or calls."""

import pytest

from roboco.ports.lease_renewals import LeaseStatus
from roboco.ports.task_store import Phase
from tests.contract.redis.chunk_emission import emit_chunk
from tests.contract.redis.task_under_test import TaskUnderTest
from tests.contract.samples import TASK, USAGE, status_event, text_chunk


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


def test_the_first_request_counts(turn_task: TaskUnderTest) -> None:
    claim = turn_task.claim()
    turn_task.inbox.add(TASK, ["one"], interrupt=True)
    first = turn_task.leases.cancel_request(claim)
    emit_chunk(turn_task.leases, claim, 1, text_chunk("a"), USAGE)
    turn_task.inbox.add(TASK, ["two"], interrupt=True)
    assert turn_task.leases.cancel_request(claim) == first
    assert list(turn_task.snapshot.item_ids) == ["one", "two"]


def test_a_turn_with_a_request_to_cancel_is_not_claimed(turn_task: TaskUnderTest) -> None:
    turn_task.inbox.add(TASK, ["stop"], interrupt=True)
    assert turn_task.leases.claim_turn(turn_task.turn_assignment(), "me", 10) is None
    assert not turn_task.snapshot.attempt.claimed


def test_the_owner_claims_again_after_a_request_to_cancel(turn_task: TaskUnderTest) -> None:
    claim = turn_task.claim("me")
    turn_task.inbox.add(TASK, ["stop"], interrupt=True)
    again = turn_task.leases.claim_turn(claim.assignment, "me", 10)
    assert again is not None
    assert turn_task.leases.renew_turn(again) is LeaseStatus.CANCEL_REQUESTED


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


def test_a_lost_turn_with_a_request_to_cancel_is_lost(turn_task: TaskUnderTest) -> None:
    claim = turn_task.let_claim_expire()
    turn_task.inbox.add(TASK, ["stop"], interrupt=True)
    assert turn_task.leases.restart_turn(TASK, claim.assignment.epoch, status_event("again")) is not None
    assert emit_chunk(turn_task.leases, claim, 1, text_chunk("a"), USAGE) is LeaseStatus.LOST
    assert turn_task.chunk_log() == []


def test_an_item_without_interrupt_requests_no_cancellation(turn_task: TaskUnderTest) -> None:
    claim = turn_task.claim()
    turn_task.inbox.add(TASK, ["message"])
    assert turn_task.leases.renew_turn(claim) is LeaseStatus.HELD
    assert turn_task.snapshot.attempt.cancel_requested_for is None


def test_an_interrupt_needs_no_item(turn_task: TaskUnderTest) -> None:
    claim = turn_task.claim()
    turn_task.inbox.add("another", [], interrupt=True)
    turn_task.inbox.add(TASK, [], interrupt=True)
    assert turn_task.leases.renew_turn(claim) is LeaseStatus.CANCEL_REQUESTED
    assert list(turn_task.snapshot.item_ids) == []
    turn_task.record_decision(Phase.WAIT)
    assert turn_task.snapshot.attempt.cancel_requested_for is None


def test_an_interrupt_with_an_epoch_cancels_only_the_work_of_that_epoch(turn_task: TaskUnderTest) -> None:
    claim = turn_task.claim()
    turn_task.inbox.add(TASK, ["stop"], interrupt=True, epoch=claim.assignment.epoch - 1)
    assert turn_task.leases.renew_turn(claim) is LeaseStatus.HELD
    assert list(turn_task.snapshot.item_ids) == ["stop"]
    turn_task.inbox.add(TASK, [], interrupt=True, epoch=claim.assignment.epoch)
    assert turn_task.leases.renew_turn(claim) is LeaseStatus.CANCEL_REQUESTED


def test_a_turn_is_claimed_after_its_request_to_cancel_is_withdrawn(turn_task: TaskUnderTest) -> None:
    epoch = turn_task.snapshot.position.epoch
    turn_task.inbox.clear_cancellation(TASK, epoch)
    turn_task.inbox.add(TASK, ["stop"], interrupt=True)
    turn_task.inbox.clear_cancellation(TASK, epoch - 1)
    turn_task.inbox.clear_cancellation("another", epoch)
    assert turn_task.leases.claim_turn(turn_task.turn_assignment(), "me", 10) is None
    turn_task.inbox.clear_cancellation(TASK, epoch)
    assert turn_task.snapshot.attempt.cancel_requested_for is None
    assert turn_task.leases.renew_turn(turn_task.claim()) is LeaseStatus.HELD


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


def test_clear_cancellation_keeps_the_request_of_an_earlier_epoch(turn_task: TaskUnderTest) -> None:
    late = turn_task.claim()
    turn_task.inbox.add(TASK, ["stop"], interrupt=True)
    assert turn_task.commit()
    for epoch in (late.assignment.epoch, turn_task.snapshot.position.epoch):
        turn_task.inbox.clear_cancellation(TASK, epoch)
        assert turn_task.leases.cancel_request(late) is not None
