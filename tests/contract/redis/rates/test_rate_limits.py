"""Rate limits: no time window holds more than the provider allows, and waiting tickets keep their order."""

import time
from typing import Any

import pytest

from roboco.domain.schema import CredentialName
from roboco.domain.team.model_profile import ModelProfile
from roboco.ports.rate_limits import MAX_RESUMED_TASKS, Admitted, Ticket
from roboco.redis.rate_limits import RedisRateLimiter
from roboco.redis.scripts import Scripts
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import (
    LONG_LEASE,
    OPERATOR_LIMITS,
    RATE_SLOT,
    TaskUnderTest,
    wait_of,
)
from tests.contract.samples import status_event

UNLIMITED = ModelProfile(model="m")
TOKEN_LIMITED = ModelProfile(model="m", tokens_per_minute=100)
REQUEST_LIMITED = ModelProfile(model="m", requests_per_minute=2)
OPERATOR_LIMITED = ModelProfile(model="shared")
MAX_OVERHANG = 2 * RATE_SLOT
"""Seconds for which a request may count after its window."""


def make_ticket(name: str, tenant: str = "", team: str = "desk") -> Ticket:
    return Ticket(f"{tenant}:{name}" if tenant else name, team, "1/1/0")


def test_tokens_of_a_window_are_not_exceeded(task: TaskUnderTest) -> None:
    rates = task.rates
    assert wait_of(rates, TOKEN_LIMITED, make_ticket("a"), 60) == 0
    assert wait_of(rates, TOKEN_LIMITED, make_ticket("b"), 40) == 0
    assert 0 < wait_of(rates, TOKEN_LIMITED, make_ticket("c"), 10) <= LONG_LEASE + MAX_OVERHANG
    task.pass_time(wait_of(task.short_window_rates, TOKEN_LIMITED, make_ticket("c"), 10))
    assert wait_of(task.short_window_rates, TOKEN_LIMITED, make_ticket("c"), 10) == 0


def test_a_waiting_ticket_keeps_its_place(task: TaskUnderTest) -> None:
    rates = task.rates
    wait_of(rates, TOKEN_LIMITED, make_ticket("a"), 100)
    first, second, third = (wait_of(rates, TOKEN_LIMITED, make_ticket(name), 60) for name in "bcd")
    assert 0 < first <= LONG_LEASE + MAX_OVERHANG < second <= third
    again = wait_of(rates, TOKEN_LIMITED, make_ticket("b"), 60)
    assert again <= first
    task.pass_time(wait_of(task.short_window_rates, TOKEN_LIMITED, make_ticket("b"), 60))
    assert wait_of(task.short_window_rates, TOKEN_LIMITED, make_ticket("b"), 60) == 0
    assert (
        0
        < wait_of(task.short_window_rates, TOKEN_LIMITED, make_ticket("c"), 60)
        < wait_of(task.short_window_rates, TOKEN_LIMITED, make_ticket("d"), 60)
    )


def test_the_recorded_usage_replaces_the_reservation(task: TaskUnderTest) -> None:
    rates = task.rates
    wait_of(rates, TOKEN_LIMITED, make_ticket("a"), 100)
    rates.record_usage(TOKEN_LIMITED, make_ticket("a"), 30)
    assert wait_of(rates, TOKEN_LIMITED, make_ticket("b"), 70) == 0
    rates.record_usage(TOKEN_LIMITED, make_ticket("unknown"), 5)
    assert wait_of(rates, TOKEN_LIMITED, make_ticket("c"), 1) > 0


def test_the_longest_pause_of_a_model_applies_to_all_its_requests(task: TaskUnderTest) -> None:
    rates = task.rates
    rates.pause(UNLIMITED, "", 60)
    rates.pause(TOKEN_LIMITED, "", 10)
    waits = [
        wait_of(rates, UNLIMITED, make_ticket("a"), 1),
        wait_of(rates, TOKEN_LIMITED, make_ticket("b"), 1),
        wait_of(rates, REQUEST_LIMITED, make_ticket("c"), 1),
    ]
    assert all(30 < wait <= 60 for wait in waits)
    other = ModelProfile(model="other", tokens_per_minute=100)
    assert wait_of(rates, other, make_ticket("d"), 1) == 0
    rates.pause(other, "", 0.1)
    task.pass_time(0.1)
    assert wait_of(rates, other, make_ticket("e"), 1) == 0


def test_a_pause_and_an_outage_of_a_tenants_key_concern_that_tenant_alone(task: TaskUnderTest) -> None:
    rates, profile = task.rates, ModelProfile(model="m", api_key=CredentialName(credential="model-key"))
    rates.pause(profile, "acme", 60)
    tickets = [make_ticket("a", "acme"), make_ticket("b", "globex")]
    assert [wait_of(rates, profile, ticket, 1) > 0 for ticket in tickets] == [True, False]
    assert wait_of(rates, UNLIMITED, make_ticket("c", "acme"), 1) == 0
    rates.add_waiting_task(profile, "acme:t1")
    assert [rates.waiting_tasks(profile, tenant) for tenant in ("acme", "globex")] == [["acme:t1"], []]


@pytest.mark.parametrize("other", [make_ticket("b", "globex"), make_ticket("b", "acme", "kiosk")])
def test_a_teams_own_limit_slows_only_that_team(task: TaskUnderTest, other: Ticket) -> None:
    waits = [wait_of(task.rates, REQUEST_LIMITED, make_ticket(f"a{number}", "acme"), 1) for number in range(30)]
    assert waits[:2] == [0, 0]
    assert min(waits[2:]) > 0
    assert wait_of(task.rates, REQUEST_LIMITED, other, 1) == 0


def test_the_operators_limit_applies_to_all_tenants_together(task: TaskUnderTest) -> None:
    greedy = ModelProfile(model="shared", requests_per_minute=1000, tokens_per_minute=10**9)
    aliased = ModelProfile(model="shared", base_url="https://api.openai.com:443/v1/", api_key_env="OTHER_KEY")
    assert wait_of(task.rates, OPERATOR_LIMITED, make_ticket("a", "acme"), 1) == 0
    assert wait_of(task.rates, greedy, make_ticket("b", "globex"), 1) == 0
    for profile in (OPERATOR_LIMITED, greedy, aliased):
        assert wait_of(task.rates, profile, make_ticket("c", "initech", profile.model), 1) > 0


def test_a_tenant_with_many_requests_does_not_hold_up_another_one(redis_task: TaskOnRedis) -> None:
    rates = redis_task.rates
    assert [wait_of(rates, OPERATOR_LIMITED, make_ticket(f"a{number}", "acme"), 50) for number in range(2)] == [0, 0]
    for number in range(2, 30):
        wait_of(rates, OPERATOR_LIMITED, make_ticket(f"a{number}", "acme"), 50)
    wait = wait_of(rates, OPERATOR_LIMITED, make_ticket("b", "globex"), 50)
    assert 0 < wait <= 2 * LONG_LEASE, "it waits for one of the 28 requests before it"
    assert wait_of(rates, OPERATOR_LIMITED, make_ticket("a29", "acme"), 50) > wait


def test_a_released_ticket_gives_its_place_to_the_tickets_behind_it(task: TaskUnderTest) -> None:
    rates = task.rates
    waits = [wait_of(rates, TOKEN_LIMITED, make_ticket(f"a{number}"), 100) for number in range(31)]
    assert waits[30] > 5 * LONG_LEASE
    for number in range(1, 30):
        for _ in range(2):
            rates.release(TOKEN_LIMITED, make_ticket(f"a{number}"))
    assert wait_of(rates, TOKEN_LIMITED, make_ticket("a30"), 100) <= LONG_LEASE + MAX_OVERHANG
    rates.release(TOKEN_LIMITED, make_ticket("a0"))
    assert wait_of(rates, TOKEN_LIMITED, make_ticket("a30"), 100) > 0, "the request of a0 was sent, and still counts"
    rates.release(UNLIMITED, make_ticket("unknown"))


def test_a_ticket_that_is_not_renewed_in_time_loses_its_place(redis_task: TaskOnRedis) -> None:
    """The ticket may belong to a worker that died; the other tickets wait for it no longer."""
    scripts = Scripts(redis_task.client)
    rates = RedisRateLimiter(scripts, redis_task.keys, OPERATOR_LIMITS, 0.1, grace=0.1, slot=RATE_SLOT)
    wait = [wait_of(rates, TOKEN_LIMITED, make_ticket(name), 100) for name in "abc"][-1]
    redis_task.pass_time(wait + 0.2)
    assert wait_of(rates, TOKEN_LIMITED, make_ticket("d"), 100) == 0
    assert redis_task.tickets(TOKEN_LIMITED, make_ticket("d")) <= {make_ticket("d").name}


def test_the_cost_of_a_reservation_does_not_grow_with_the_waiting_tickets(redis_task: TaskOnRedis) -> None:
    def calls() -> int:
        client: Any = redis_task.client
        return int(sum(one["calls"] for one in client.info("commandstats").values()))

    def commands(name: str) -> int:
        before = calls()
        wait_of(redis_task.rates, OPERATOR_LIMITED, make_ticket(name, f"tenant{len(name)}"), 10)
        return calls() - before

    few = max(commands("x" * length) for length in range(1, 10))
    for number in range(100):
        wait_of(redis_task.rates, OPERATOR_LIMITED, make_ticket(f"t{number}", f"tenant{number}"), 10)
    assert commands("y") <= few + 5


def test_tasks_wait_for_a_model_until_they_are_removed(task: TaskUnderTest) -> None:
    rates, tasks = task.rates, [f"t{number:03}" for number in range(MAX_RESUMED_TASKS + 1)]
    assert rates.waiting_tasks(UNLIMITED, "") == []
    assert wait_of(rates, UNLIMITED, make_ticket("a"), 1) == 0
    for task_id in tasks:
        rates.add_waiting_task(UNLIMITED, task_id)
        rates.add_waiting_task(UNLIMITED, task_id)
    assert sorted(rates.waiting_tasks(UNLIMITED, "")) == tasks[:MAX_RESUMED_TASKS]
    assert rates.reserve(UNLIMITED, make_ticket("b"), 1) == Admitted(tasks_waiting=True)
    assert isinstance(rates.reserve(REQUEST_LIMITED, make_ticket("c"), 1), Admitted)
    assert rates.waiting_tasks(UNLIMITED.model_copy(update={"model": "another"}), "") == []
    rates.remove_waiting_tasks(UNLIMITED, "", rates.waiting_tasks(UNLIMITED, ""))
    assert rates.waiting_tasks(UNLIMITED, "") == tasks[MAX_RESUMED_TASKS:]
    rates.remove_waiting_tasks(UNLIMITED, "", tasks)
    rates.remove_waiting_tasks(UNLIMITED, "", [])
    assert rates.waiting_tasks(UNLIMITED, "") == []
    assert wait_of(rates, UNLIMITED, make_ticket("d"), 1) == 0


@pytest.mark.parametrize("refused", [False, True])
def test_a_deferred_turn_is_claimed_again_later(task: TaskUnderTest, refused: bool) -> None:
    task.create(3)
    task.record_decision()
    claim = task.claim("me")
    event = status_event("waits")
    start = time.monotonic()
    assert task.leases.defer_turn(claim, 0.3, event, refused)
    now = task.snapshot
    assert (now.attempt.claimed, now.attempt.number, now.position.reason, now.refusals.count) == (
        False,
        1,
        "waits",
        int(refused),
    )
    assert now.refusals.seconds == 0
    due = deferral_left(task)
    assert max(0.0, 0.3 - (time.monotonic() - start) - 0.005) <= due <= 0.3
    assert not task.leases.renew(claim.lease)
    assert task.leases.defer_turn(claim, 5, event, refused)
    assert 0 <= deferral_left(task) <= 0.3
    task.pass_time(0.3)
    assert deferral_left(task) == 0
    again = task.claim("you")
    assert again.assignment == claim.assignment
    assert task.snapshot.position.reason == "", "the deferral has ended"
    assert deferral_left(task) == -1
    assert task.leases.defer_turn(again, 0.1, event, True)
    assert task.snapshot.refusals.count == 1 + refused
    assert (task.snapshot.refusals.seconds >= 0.3) is refused
    assert task.event_log()[-1][2] == "waits"


def deferral_left(task: TaskUnderTest) -> float:
    """Return the seconds until the end of the turn's deferral, or -1 if it is not deferred."""
    seconds = task.snapshot.attempt.deferred_for
    return -1 if seconds is None else seconds
