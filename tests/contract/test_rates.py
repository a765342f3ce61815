"""Rates: no window of time holds more than a provider allows, whoever asks, and waiting turns keep their order."""

import itertools
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.rate_limits import Buckets, RedisRateLimiter
from roboco.adapters.redis.scripts import Scripts
from roboco.domain.team.model_profile import ModelProfile
from roboco.ports.rate_limits import MAX_RESUMED_TASKS, Ticket
from tests.contract.a_task import LIMITS, LONG, SLOT, WINDOW, ATask
from tests.contract.samples import TASK, told
from tests.contract.task_on_redis import TaskOnRedis

FREE = ModelProfile(model="m")
TOKENS = ModelProfile(model="m", tokens_per_minute=100)
REQUESTS = ModelProfile(model="m", requests_per_minute=2)
SHARED = ModelProfile(model="shared")


def of(name: str, tenant: str = "", team: str = "desk") -> Ticket:
    return Ticket(f"{tenant}:{name}" if tenant else name, team, "1/1/0")


def test_what_has_no_limit_is_asked_at_once(task: ATask) -> None:
    assert [task.rates.reserve(FREE, of(f"t{number}"), 10_000) for number in range(50)] == [0] * 50


def test_tokens_of_a_window_are_not_exceeded(task: ATask) -> None:
    rates = task.rates
    assert rates.reserve(TOKENS, of("a"), 60) == 0
    assert rates.reserve(TOKENS, of("b"), 40) == 0
    assert 0 < rates.reserve(TOKENS, of("c"), 10) <= LONG + 2 * SLOT
    task.outlive(task.brief_rates.reserve(TOKENS, of("c"), 10))
    assert task.brief_rates.reserve(TOKENS, of("c"), 10) == 0


def test_requests_of_a_window_are_not_exceeded(task: ATask) -> None:
    rates = task.rates
    assert [rates.reserve(REQUESTS, of(name), 1) for name in "ab"] == [0, 0]
    assert 0 < rates.reserve(REQUESTS, of("c"), 1) <= LONG + 2 * SLOT
    task.outlive(task.brief_rates.reserve(REQUESTS, of("c"), 1))
    assert task.brief_rates.reserve(REQUESTS, of("c"), 1) == 0


def test_the_same_ticket_is_the_same_request(task: ATask) -> None:
    assert [task.rates.reserve(TOKENS, of("a"), 100) for _ in range(5)] == [0] * 5
    assert task.rates.reserve(TOKENS, of("b"), 1) > 0


def test_who_waits_keeps_its_place(task: ATask) -> None:
    rates = task.rates
    rates.reserve(TOKENS, of("a"), 100)
    first, second, third = (rates.reserve(TOKENS, of(name), 60) for name in "bcd")
    assert 0 < first <= LONG + 2 * SLOT < second <= third
    again = rates.reserve(TOKENS, of("b"), 60)
    assert again <= first
    task.outlive(task.brief_rates.reserve(TOKENS, of("b"), 60))
    assert task.brief_rates.reserve(TOKENS, of("b"), 60) == 0
    assert 0 < task.brief_rates.reserve(TOKENS, of("c"), 60) < task.brief_rates.reserve(TOKENS, of("d"), 60)


def test_a_larger_request_than_a_window_waits_until_it_is_alone(task: ATask) -> None:
    rates = task.rates
    assert rates.reserve(TOKENS, of("a"), 1) == 0
    assert 0 < rates.reserve(TOKENS, of("huge"), 10_000) <= LONG + 2 * SLOT
    task.outlive(task.brief_rates.reserve(TOKENS, of("huge"), 10_000))
    assert task.brief_rates.reserve(TOKENS, of("huge"), 10_000) == 0
    assert rates.reserve(TOKENS, of("b"), 1) > 0


def test_what_was_used_counts_in_place_of_what_was_reserved(task: ATask) -> None:
    rates = task.rates
    rates.reserve(TOKENS, of("a"), 100)
    rates.record_usage(TOKENS, of("a"), 30)
    assert rates.reserve(TOKENS, of("b"), 70) == 0
    rates.record_usage(TOKENS, of("nobody"), 5)
    assert rates.reserve(TOKENS, of("c"), 1) > 0


def test_requests_that_no_longer_count_are_forgotten(task: ATask) -> None:
    many = ModelProfile(model="m", requests_per_minute=1000)
    for ticket in "abc":
        assert task.brief_rates.reserve(many, of(ticket), 1) == 0
    task.outlive(WINDOW + 2 * SLOT)
    assert task.brief_rates.reserve(many, of("d"), 1) == 0
    assert task.tickets(many, of("d")) == {of("d").name}


def test_what_left_the_window_is_removed(redis_task: TaskOnRedis) -> None:
    many = ModelProfile(model="m", requests_per_minute=1000)
    window = Buckets(redis_task.keys, LIMITS).of(many, "", "desk")[0].keys[0]
    assert redis_task.brief_rates.reserve(many, of("a"), 1) == 0
    client: Any = redis_task.client
    old = slots_of(client.hgetall(window))
    redis_task.outlive(WINDOW + 2 * SLOT)
    assert redis_task.brief_rates.reserve(many, of("b"), 1) == 0
    assert old
    assert not old.keys() & slots_of(client.hgetall(window)).keys()


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from("rrru"), st.integers(1, 50), st.floats(0, 0.03)), min_size=1, max_size=25))
def test_the_sums_of_a_bucket_equal_its_slots(redis_task: TaskOnRedis, requests: list[tuple[str, int, float]]) -> None:
    many = ModelProfile(model="m", requests_per_minute=100_000, tokens_per_minute=10**6)
    rates = RedisRateLimiter(Scripts(redis_task.client), redis_task.keys, LIMITS, 0.05, slot=0.005)
    names = Buckets(redis_task.keys, LIMITS).of(many, "", "desk")[0].keys
    client: Any = redis_task.client
    for kind, tokens, seconds in requests:
        ticket = of(uuid.uuid4().hex)
        assert rates.reserve(many, ticket, tokens) == 0
        time.sleep(seconds)  # slots leave the window meanwhile
        if kind == "u":
            rates.record_usage(many, ticket, 2 * tokens, seconds / 2)
        found = client.hgetall(names[0])
        slots = slots_of(found)
        for name, suffix in (("requests", "r"), ("tokens", "t")):
            assert int(found.get(name, 0)) == sum(count for slot, count in slots.items() if slot.endswith(suffix))
            assert all(int(slot[:-1]) >= int(found["oldest"]) for slot in slots)


def slots_of(found: dict[str, str]) -> dict[str, int]:
    """Return the counts of each slot in the hash of a bucket's usage."""
    return {name: int(count) for name, count in found.items() if name[:-1].isdigit()}


def test_nothing_remains_in_redis_after_an_hour_of_traffic(redis_task: TaskOnRedis) -> None:
    """The hour is compressed: 60 windows of 50 ms. A third of the waiting tickets is lost with its worker."""
    client: Any = redis_task.client
    keys = Keys(f"{redis_task.keys.prefix}-hour")
    rates = RedisRateLimiter(Scripts(client), keys, LIMITS, window=0.05, grace=0.05, slot=0.005)
    deadline, sizes = time.monotonic() + 60 * 0.05, []

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(send_requests, rates, worker, deadline) for worker in range(4)]
        while not all(one.done() for one in running):
            sizes += [client.hlen(name) for name in client.scan_iter(f"{keys.prefix}:*:used")]
        for one in running:
            one.result()
    assert max(sizes) <= 3 + 2 * (0.05 / 0.005 + 2)
    longest_ttl = max(client.pttl(name) for name in client.scan_iter(f"{keys.prefix}:*"))
    assert 0 < longest_ttl < 10_000
    time.sleep(longest_ttl / 1000 + 0.01)
    assert list(client.scan_iter(f"{keys.prefix}:*")) == []


def send_requests(rates: RedisRateLimiter, worker: int, deadline: float) -> None:
    """Send requests of five tenants until the deadline. A third of those that wait is lost, a third is released."""
    profile = ModelProfile(model="shared", tokens_per_minute=100)
    for number in itertools.takewhile(lambda _: time.monotonic() < deadline, itertools.count()):
        ticket = of(f"t{worker}-{number}", f"tenant{number % 5}")
        while (wait := rates.reserve(profile, ticket, 10)) > 0 and number % 3 and time.monotonic() < deadline:
            time.sleep(min(wait, 0.02))
        if wait <= 0:
            rates.record_usage(profile, ticket, 8)
        elif number % 3 == 1:
            rates.release(profile, ticket)


def test_a_pause_holds_for_all_and_the_longest_counts(task: ATask) -> None:
    rates = task.rates
    rates.pause(FREE, 60)
    rates.pause(TOKENS, 10)
    waits = [rates.reserve(FREE, of("a"), 1), rates.reserve(TOKENS, of("b"), 1), rates.reserve(REQUESTS, of("c"), 1)]
    assert all(30 < wait <= 60 for wait in waits)
    other = ModelProfile(model="other", tokens_per_minute=100)
    assert rates.reserve(other, of("d"), 1) == 0
    rates.pause(other, 0.1)
    task.outlive(0.1)
    assert rates.reserve(other, of("e"), 1) == 0


@pytest.mark.parametrize("other", [of("b", "globex"), of("b", "acme", "kiosk")])
def test_a_teams_own_limit_slows_only_that_team(task: ATask, other: Ticket) -> None:
    waits = [task.rates.reserve(REQUESTS, of(f"a{number}", "acme"), 1) for number in range(30)]
    assert waits[:2] == [0, 0]
    assert min(waits[2:]) > 0
    assert task.rates.reserve(REQUESTS, other, 1) == 0


def test_the_operators_limit_holds_for_all_together(task: ATask) -> None:
    greedy = ModelProfile(model="shared", requests_per_minute=1000, tokens_per_minute=10**9)
    aliased = ModelProfile(model="shared", base_url="https://api.openai.com:443/v1/", api_key_env="OTHER_KEY")
    assert task.rates.reserve(SHARED, of("a", "acme"), 1) == 0
    assert task.rates.reserve(greedy, of("b", "globex"), 1) == 0
    for profile in (SHARED, greedy, aliased):
        assert task.rates.reserve(profile, of("c", "initech", profile.model), 1) > 0


def test_a_tenant_with_many_requests_does_not_hold_up_another_one(task: ATask) -> None:
    rates = task.brief_rates
    assert [rates.reserve(SHARED, of(f"a{number}", "acme"), 50) for number in range(2)] == [0, 0]
    for number in range(2, 30):
        rates.reserve(SHARED, of(f"a{number}", "acme"), 50)
    wait = rates.reserve(SHARED, of("b", "globex"), 50)
    assert 0 < wait <= 2 * WINDOW, "after one of the 28 that came before"
    assert rates.reserve(SHARED, of("a29", "acme"), 50) > wait


def test_a_released_ticket_gives_its_place_to_those_behind(task: ATask) -> None:
    rates = task.brief_rates
    waits = [rates.reserve(TOKENS, of(f"a{number}"), 100) for number in range(31)]
    assert waits[30] > 10 * WINDOW
    for number in range(1, 30):
        for _ in range(2):
            rates.release(TOKENS, of(f"a{number}"))
    assert rates.reserve(TOKENS, of("a30"), 100) <= 1.1 * WINDOW
    rates.release(TOKENS, of("a0"))
    assert task.rates.reserve(TOKENS, of("a30"), 100) > 0, "the request of a0 was made, and counts on"
    rates.release(FREE, of("nobody"))


def test_who_released_its_tickets_is_not_charged_for_them(task: ATask) -> None:
    for number in range(30):
        task.rates.reserve(SHARED, of(f"b{number}", "globex"), 50)
    for number in range(20):
        task.rates.reserve(SHARED, of(f"a{number}", "acme"), 50)
    for number in range(20):
        task.rates.release(SHARED, of(f"a{number}", "acme"))
    assert task.rates.reserve(SHARED, of("new", "acme"), 50) <= 2 * LONG


def test_a_ticket_that_does_not_ask_again_in_time_loses_its_place(redis_task: TaskOnRedis) -> None:
    """Also of a worker that died: the others wait for it no longer."""
    rates = RedisRateLimiter(Scripts(redis_task.client), redis_task.keys, LIMITS, 0.1, grace=0.1, slot=SLOT)
    wait = [rates.reserve(TOKENS, of(name), 100) for name in "abc"][-1]
    redis_task.outlive(wait + 0.2)
    assert rates.reserve(TOKENS, of("d"), 100) == 0
    assert redis_task.tickets(TOKENS, of("d")) == {of("d").name}


def test_a_reservation_costs_no_more_where_many_wait(redis_task: TaskOnRedis) -> None:
    def calls() -> int:
        client: Any = redis_task.client
        return int(sum(one["calls"] for one in client.info("commandstats").values()))

    def commands(name: str) -> int:
        before = calls()
        redis_task.rates.reserve(SHARED, of(name, f"tenant{len(name)}"), 10)
        return calls() - before

    few = max(commands("x" * length) for length in range(1, 10))
    for number in range(300):
        redis_task.rates.reserve(SHARED, of(f"t{number}", f"tenant{number}"), 10)
    assert commands("y") <= few + 5


def test_many_at_once_stay_within_the_limit(redis_task: TaskOnRedis) -> None:
    """However many ask at the same moment, those who may go on together hold no more than a window's tokens."""
    with ThreadPoolExecutor(16) as pool:
        waits = list(pool.map(lambda number: redis_task.rates.reserve(TOKENS, of(f"t{number}"), 30), range(40)))
    assert len([wait for wait in waits if wait == 0]) == 3


def test_tasks_await_an_answer_of_their_model(task: ATask) -> None:
    rates, tasks = task.rates, [f"t{number:03}" for number in range(MAX_RESUMED_TASKS + 1)]
    assert rates.waiting_tasks(FREE) == []
    assert rates.reserve(FREE, of("a"), 1) == 0
    for task_id in tasks:
        rates.add_waiting_task(FREE, task_id)
        rates.add_waiting_task(FREE, task_id)
    assert sorted(rates.waiting_tasks(FREE)) == tasks[:MAX_RESUMED_TASKS]
    assert rates.reserve(FREE, of("b"), 1) < 0
    assert rates.reserve(REQUESTS, of("c"), 1) <= 0
    assert rates.waiting_tasks(FREE.model_copy(update={"model": "another"})) == []
    rates.remove_waiting_tasks(FREE, rates.waiting_tasks(FREE))
    assert rates.waiting_tasks(FREE) == tasks[MAX_RESUMED_TASKS:]
    rates.remove_waiting_tasks(FREE, tasks)
    rates.remove_waiting_tasks(FREE, [])
    assert rates.waiting_tasks(FREE) == []
    assert rates.reserve(FREE, of("d"), 1) == 0


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
    assert now.refused_for == 0
    due = due_in(task)
    assert max(0.0, 0.3 - (time.monotonic() - began) - 0.005) <= due <= 0.3
    assert not task.turns.renew(claim)
    assert task.turns.defer(claim, 5, event, refused)
    assert 0 <= due_in(task) <= 0.3
    task.outlive(0.3)
    assert due_in(task) == 0
    again = task.claim("you")
    assert again.assignment == claim.assignment
    assert task.now.reason == "", "the turn waits no more"
    assert due_in(task) == -1
    assert task.turns.defer(again, 0.1, event, True)
    assert task.now.refusals == 1 + refused
    assert (task.now.refused_for >= 0.3) is refused
    assert task.told()[-1][2] == "waits"


def test_a_turn_that_an_earlier_release_deferred_is_deferred_again(redis_task: TaskOnRedis) -> None:
    """That release did not note since when the turn is refused."""
    task = redis_task
    task.create(3)
    task.choose()
    task.turns.defer(task.claim(), 0, told("waits"), True)
    task.client.hdel(task.keys.state(TASK), "first_refused_at", "refused_for")
    assert (task.now.refusals, task.now.refused_for) == (1, 0)
    assert task.turns.defer(task.claim(), 0, told("waits"), True)
    assert (task.now.refusals, task.now.refused_for) == (2, 0)


def test_a_turn_that_is_handed_out_again_is_due_no_more(task: ATask) -> None:
    task.create(3)
    task.choose()
    task.turns.defer(task.claim(), 5, told("waits"), True)
    assert task.turns.count_redelivery(TASK, task.now.epoch, True) == 1
    assert due_in(task) == -1
    task.choose()
    assert (due_in(task), task.now.refusals) == (-1, 0)


def due_in(task: ATask) -> float:
    """Seconds for which the turn was given back; -1 if it was not."""
    seconds = task.now.deferred_for
    return -1 if seconds is None else seconds
