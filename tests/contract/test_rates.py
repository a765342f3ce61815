"""Rates: no window of time holds more than a provider allows, whoever asks, and waiting turns keep their order."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from roboco.domain.model_profile import ModelProfile
from tests.contract.a_task import LONG, WINDOW, ATask
from tests.contract.samples import TASK, told
from tests.contract.task_on_redis import TaskOnRedis

FREE = ModelProfile(model="m")
TOKENS = ModelProfile(model="m", tokens_per_minute=100)
REQUESTS = ModelProfile(model="m", requests_per_minute=2)


def test_what_has_no_limit_is_asked_at_once(task: ATask) -> None:
    assert [task.rates.reserve(FREE, f"t{number}", 10_000) for number in range(50)] == [0] * 50


def test_tokens_of_a_window_are_not_exceeded(task: ATask) -> None:
    rates = task.rates
    assert rates.reserve(TOKENS, "a", 60) == 0
    assert rates.reserve(TOKENS, "b", 40) == 0
    assert 0 < rates.reserve(TOKENS, "c", 10) <= LONG + 0.01
    task.outlive(task.brief_rates.reserve(TOKENS, "c", 10))
    assert task.brief_rates.reserve(TOKENS, "c", 10) == 0


def test_requests_of_a_window_are_not_exceeded(task: ATask) -> None:
    rates = task.rates
    assert [rates.reserve(REQUESTS, name, 1) for name in "ab"] == [0, 0]
    assert 0 < rates.reserve(REQUESTS, "c", 1) <= LONG + 0.01
    task.outlive(task.brief_rates.reserve(REQUESTS, "c", 1))
    assert task.brief_rates.reserve(REQUESTS, "c", 1) == 0


def test_the_same_ticket_is_the_same_request(task: ATask) -> None:
    assert [task.rates.reserve(TOKENS, "a", 100) for _ in range(5)] == [0] * 5
    assert task.rates.reserve(TOKENS, "b", 1) > 0


def test_who_waits_keeps_its_place(task: ATask) -> None:
    rates = task.rates
    rates.reserve(TOKENS, "a", 100)
    first, second, third = (rates.reserve(TOKENS, name, 60) for name in "bcd")
    assert 0 < first <= LONG + 0.01 < second <= 2 * LONG + 0.02 < third
    again = rates.reserve(TOKENS, "b", 60)
    assert again <= first
    task.outlive(task.brief_rates.reserve(TOKENS, "b", 60))
    assert task.brief_rates.reserve(TOKENS, "b", 60) == 0
    assert 0 < rates.reserve(TOKENS, "d", 60) <= third


def test_a_larger_request_than_a_window_waits_until_it_is_alone(task: ATask) -> None:
    rates = task.rates
    assert rates.reserve(TOKENS, "a", 1) == 0
    assert 0 < rates.reserve(TOKENS, "huge", 10_000) <= LONG + 0.01
    task.outlive(task.brief_rates.reserve(TOKENS, "huge", 10_000))
    assert task.brief_rates.reserve(TOKENS, "huge", 10_000) == 0
    assert rates.reserve(TOKENS, "b", 1) > 0


def test_what_was_used_counts_in_place_of_what_was_reserved(task: ATask) -> None:
    rates = task.rates
    rates.reserve(TOKENS, "a", 100)
    rates.settle(TOKENS, "a", 30)
    assert rates.reserve(TOKENS, "b", 70) == 0
    rates.settle(TOKENS, "nobody", 5)
    assert rates.reserve(TOKENS, "c", 1) > 0


def test_requests_that_no_longer_count_are_forgotten(task: ATask) -> None:
    many = ModelProfile(model="m", requests_per_minute=1000)
    for ticket in "abc":
        assert task.brief_rates.reserve(many, ticket, 1) == 0
    task.outlive(WINDOW)
    assert task.brief_rates.reserve(many, "d", 1) == 0
    assert task.tickets(many) == {"d"}


def test_a_pause_holds_for_all_and_the_longest_counts(task: ATask) -> None:
    rates = task.rates
    rates.pause(FREE, 60)
    rates.pause(TOKENS, 10)
    waits = [rates.reserve(FREE, "a", 1), rates.reserve(TOKENS, "b", 1), rates.reserve(REQUESTS, "c", 1)]
    assert all(30 < wait <= 60 for wait in waits)
    other = ModelProfile(model="other", tokens_per_minute=100)
    assert rates.reserve(other, "d", 1) == 0
    rates.pause(other, 0.1)
    task.outlive(0.1)
    assert rates.reserve(other, "e", 1) == 0


def test_many_at_once_stay_within_the_limit(redis_task: TaskOnRedis) -> None:
    """However many ask at the same moment, those who may go on together hold no more than a window's tokens."""
    with ThreadPoolExecutor(16) as pool:
        waits = list(pool.map(lambda number: redis_task.rates.reserve(TOKENS, f"t{number}", 30), range(40)))
    assert len([wait for wait in waits if wait == 0]) == 3
    later = sorted(wait for wait in waits if wait > 0)
    for start in later:
        assert len([wait for wait in later if start <= wait < start + LONG - 5]) <= 3


@pytest.mark.parametrize("refused", [False, True])
def test_a_turn_is_given_back_until_later(task: ATask, refused: bool) -> None:
    task.create(3)
    task.choose()
    claim = task.claim("me")
    event = told("waits")
    began = time.monotonic()
    assert task.turns.defer(claim, 0.3, event, refused)
    now = task.now
    assert (now.claimed, now.attempt, now.reason, now.refusals) == (False, 1, "waits", int(refused))
    due = due_in(task)
    assert max(0.0, 0.3 - (time.monotonic() - began) - 0.005) <= due <= 0.3
    assert not task.turns.renew(claim)
    assert task.turns.defer(claim, 5, event, refused)
    assert 0 <= due_in(task) <= 0.3
    task.outlive(0.3)
    assert due_in(task) == 0
    again = task.claim("you")
    assert again.order == claim.order
    assert task.now.reason == "", "the turn waits no more"
    assert due_in(task) == -1
    assert task.turns.defer(again, 0.1, event, True)
    assert task.now.refusals == 1 + refused
    assert task.told()[-1][2] == "waits"


def test_a_turn_that_is_handed_out_again_is_due_no_more(task: ATask) -> None:
    task.create(3)
    task.choose()
    task.turns.defer(task.claim(), 5, told("waits"), True)
    assert task.turns.ring(TASK, task.now.epoch, True) == 1
    assert due_in(task) == -1
    task.choose()
    assert (due_in(task), task.now.refusals) == (-1, 0)


def due_in(task: ATask) -> float:
    """Seconds for which the turn was given back; -1 if it was not."""
    seconds = task.now.due_in
    return -1 if seconds is None else seconds
