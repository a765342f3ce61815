"""Urgent items: whoever works at what is pending is told to end it."""

import pytest

from roboco.ports.leases import LeaseStatus
from roboco.ports.task_store import Phase
from tests.contract.redis.chunk_emission import emit_chunk
from tests.contract.redis.task_under_test import TaskUnderTest
from tests.contract.samples import TASK, USAGE, status_event, text_chunk


@pytest.fixture
def turn(task: TaskUnderTest) -> TaskUnderTest:
    """A task with a pending turn that nobody took."""
    task.create(3)
    task.record_decision()
    return task


def test_the_worker_of_a_turn_is_asked_to_end_it(turn: TaskUnderTest) -> None:
    claim = turn.claim()
    assert emit_chunk(turn.turns, claim, 1, text_chunk("a"), USAGE) is LeaseStatus.HELD
    assert turn.turns.renew(claim) is LeaseStatus.HELD
    assert turn.turns.cancel_request(claim) is None
    turn.inbox.add(TASK, ["stop"], interrupt=True)
    assert turn.turns.renew(claim) is LeaseStatus.CANCEL_REQUESTED
    assert emit_chunk(turn.turns, claim, 2, text_chunk("b"), USAGE) is LeaseStatus.CANCEL_REQUESTED
    assert emit_chunk(turn.turns, claim, 2, text_chunk("b"), USAGE) is LeaseStatus.CANCEL_REQUESTED
    cancel_request = turn.turns.cancel_request(claim)
    assert cancel_request is not None
    assert cancel_request.emitted_chunks == 1
    assert turn.snapshot.cancel_requested_for is not None
    assert [text for _, _, text in turn.chunk_log()] == ["a", "b"]


def test_the_first_request_counts(turn: TaskUnderTest) -> None:
    claim = turn.claim()
    turn.inbox.add(TASK, ["one"], interrupt=True)
    first = turn.turns.cancel_request(claim)
    emit_chunk(turn.turns, claim, 1, text_chunk("a"), USAGE)
    turn.inbox.add(TASK, ["two"], interrupt=True)
    assert turn.turns.cancel_request(claim) == first
    assert list(turn.snapshot.item_ids) == ["one", "two"]


def test_a_turn_that_is_to_end_is_not_begun(turn: TaskUnderTest) -> None:
    turn.inbox.add(TASK, ["stop"], interrupt=True)
    assert turn.turns.claim(turn.turn_assignment(), "me", 10) is None
    assert not turn.snapshot.claimed


def test_who_claimed_it_before_gets_the_same_answer(turn: TaskUnderTest) -> None:
    claim = turn.claim("me")
    turn.inbox.add(TASK, ["stop"], interrupt=True)
    again = turn.turns.claim(claim.assignment, "me", 10)
    assert again is not None
    assert turn.turns.renew(again) is LeaseStatus.CANCEL_REQUESTED


def test_what_comes_after_the_fence_moved_is_not_concerned(turn: TaskUnderTest) -> None:
    claim = turn.claim()
    turn.inbox.add(TASK, ["stop"], interrupt=True)
    assert turn.commit()
    assert turn.turns.renew(claim) is LeaseStatus.LOST
    assert turn.turns.cancel_request(claim) is not None, "it says what the late worker asks about"
    turn.record_decision()
    assert turn.snapshot.cancel_requested_for is None
    assert turn.turns.renew(turn.claim()) is LeaseStatus.HELD


def test_a_lost_turn_is_lost_although_it_was_to_end(turn: TaskUnderTest) -> None:
    claim = turn.let_claim_expire()
    turn.inbox.add(TASK, ["stop"], interrupt=True)
    assert turn.turns.restart(TASK, claim.assignment.epoch, status_event("again")) is not None
    assert emit_chunk(turn.turns, claim, 1, text_chunk("a"), USAGE) is LeaseStatus.LOST
    assert turn.chunk_log() == []


def test_items_that_can_wait_ask_nobody(turn: TaskUnderTest) -> None:
    claim = turn.claim()
    turn.inbox.add(TASK, ["message"])
    assert turn.turns.renew(claim) is LeaseStatus.HELD
    assert turn.snapshot.cancel_requested_for is None


def test_urgency_without_an_item_and_without_a_task(turn: TaskUnderTest) -> None:
    claim = turn.claim()
    turn.inbox.add("another", [], interrupt=True)
    turn.inbox.add(TASK, [], interrupt=True)
    assert turn.turns.renew(claim) is LeaseStatus.CANCEL_REQUESTED
    assert list(turn.snapshot.item_ids) == []
    turn.record_decision(Phase.WAIT)
    assert turn.snapshot.cancel_requested_for is None


def test_only_the_work_of_the_named_epoch_is_to_end(turn: TaskUnderTest) -> None:
    claim = turn.claim()
    turn.inbox.add(TASK, ["stop"], interrupt=True, epoch=claim.assignment.epoch - 1)
    assert turn.turns.renew(claim) is LeaseStatus.HELD
    assert list(turn.snapshot.item_ids) == ["stop"]
    turn.inbox.add(TASK, [], interrupt=True, epoch=claim.assignment.epoch)
    assert turn.turns.renew(claim) is LeaseStatus.CANCEL_REQUESTED


def test_what_nobody_wants_to_end_any_more_goes_on(turn: TaskUnderTest) -> None:
    epoch = turn.snapshot.epoch
    turn.inbox.clear_cancellation(TASK, epoch)
    turn.inbox.add(TASK, ["stop"], interrupt=True)
    turn.inbox.clear_cancellation(TASK, epoch - 1)
    turn.inbox.clear_cancellation("another", epoch)
    assert turn.turns.claim(turn.turn_assignment(), "me", 10) is None
    turn.inbox.clear_cancellation(TASK, epoch)
    assert turn.snapshot.cancel_requested_for is None
    assert turn.turns.renew(turn.claim()) is LeaseStatus.HELD


def test_a_call_that_is_to_end_is_not_begun(task: TaskUnderTest) -> None:
    task.create()
    task.record_decision(Phase.TOOLS)
    assert task.calls.claim(task.tool_assignment("tc_1"), "me")
    task.inbox.add(TASK, ["stop"], interrupt=True)
    assert not task.calls.claim(task.tool_assignment("tc_2"), "me")
    assert task.calls.claim(task.tool_assignment("tc_1"), "me"), "our own answer was lost"
    assert task.calls.renew(task.tool_assignment("tc_1"), "me")
    task.inbox.clear_cancellation(TASK, task.snapshot.epoch)
    assert task.calls.claim(task.tool_assignment("tc_2"), "me")


def test_calm_for_another_epoch_leaves_the_request_that_a_late_worker_asks_about(turn: TaskUnderTest) -> None:
    late = turn.claim()
    turn.inbox.add(TASK, ["stop"], interrupt=True)
    assert turn.commit()
    for epoch in (late.assignment.epoch, turn.snapshot.epoch):
        turn.inbox.clear_cancellation(TASK, epoch)
        assert turn.turns.cancel_request(late) is not None
