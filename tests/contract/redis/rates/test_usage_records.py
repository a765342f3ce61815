"""Records of used tokens: kept for a moment and sent together; late, repeated, in any order, or lost."""

import logging
import subprocess
import sys
import threading
import time
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roboco.domain.team.model_limits import ModelLimits
from roboco.domain.team.model_profile import ModelProfile
from roboco.errors import TransientError
from roboco.local.valkey import ValkeyServer
from roboco.redis.rate_limits import Buckets, RedisRateLimiter
from roboco.redis.scripts import Scripts
from roboco.redis.usage_records import MAX_RECORDS, UsageRecord, UsageRecords
from tests.contract.redis.rates.test_rate_limit_usage import commands, slots_of
from tests.contract.redis.rates.test_rate_limits import TOKEN_LIMITED, make_ticket
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import wait_of
from tests.support.stack import until

HIGH_LIMITS = ModelProfile(model="m", requests_per_minute=10_000, tokens_per_minute=10**6)
OF_OPERATOR = ModelProfile(model="both", tokens_per_minute=10**6)
"""A profile with a limit of its team, whose model has one of the operator, too."""

LIMITS = ModelLimits(("both=10000/1000000",))


class CountedScripts(Scripts):
    """Scripts that count the calls of `rate_record`, and the records of each."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.calls: list[int] = []

    def run_all(self, calls: Any) -> list[Any]:
        """Make the calls, and count them then: a test that waits for the count reads what they have written."""
        answers = super().run_all(calls)
        self.calls += [call.arguments[0] for call in calls if call.name == "rate_record"]
        return answers


def counted_limiter(task: TaskOnRedis, slot: float = 0.2) -> tuple[RedisRateLimiter, list[int]]:
    """Return a limiter, and the numbers of records of its calls so far."""
    scripts = CountedScripts(task.client)
    return RedisRateLimiter(scripts, task.keys, LIMITS, slot=slot), scripts.calls


def usage_of(task: TaskOnRedis, profile: ModelProfile) -> list[dict[str, str]]:
    """Return the usage of each limit of a request with this profile."""
    client: Any = task.client
    return [client.hgetall(one.keys[0]) for one in Buckets(task.keys, LIMITS).of(profile, "", "desk")]


def request(limiter: RedisRateLimiter, profile: ModelProfile, used: int, seconds_ago: float = 0.0) -> None:
    """Make a request that reserves 100 tokens and uses others."""
    ticket = make_ticket(uuid.uuid4().hex)
    assert wait_of(limiter, profile, ticket, 100) == 0
    limiter.record_usage(profile, ticket, used, seconds_ago)


def test_the_first_record_of_a_while_is_sent_at_once_and_the_next_ones_together(redis_task: TaskOnRedis) -> None:
    limiter, calls = counted_limiter(redis_task)
    request(limiter, HIGH_LIMITS, 10)
    assert calls == [1]
    for _ in range(9):
        request(limiter, HIGH_LIMITS, 10)
    until(lambda: sum(calls) == 10, 5, "all are recorded")
    assert usage_of(redis_task, HIGH_LIMITS)[0]["tokens"] == "100"
    assert len(calls) < 10
    time.sleep(0.16)  # three quarters of a slot: a while
    request(limiter, HIGH_LIMITS, 5)
    assert usage_of(redis_task, HIGH_LIMITS)[0]["tokens"] == "105", "it is sent at once"


def test_an_admission_takes_records_that_were_kept_for_most_of_a_slot(redis_task: TaskOnRedis) -> None:
    limiter, calls = counted_limiter(redis_task, slot=4)
    for _ in range(4):
        request(limiter, HIGH_LIMITS, 10)
    assert wait_of(limiter, HIGH_LIMITS, make_ticket("soon"), 100) == 0
    assert calls == [1], "less than three quarters of a slot"
    time.sleep(3.1)
    assert wait_of(limiter, HIGH_LIMITS, make_ticket("later"), 100) == 0
    assert calls == [1, 3]
    assert usage_of(redis_task, HIGH_LIMITS)[0]["tokens"] == "240"


@pytest.mark.parametrize("failing", ["rate_record", "rate_reserve"])
def test_an_admission_and_the_records_before_it_fail_apart(
    redis_task: TaskOnRedis, failing: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    limiter, calls = counted_limiter(redis_task, slot=4)
    for _ in range(2):
        request(limiter, HIGH_LIMITS, 10)
    run_all = CountedScripts.run_all

    def fail_one(self: CountedScripts, found: Any) -> list[Any]:
        answers = iter(run_all(self, [call for call in found if call.name != failing]))
        return [TransientError("gone") if call.name == failing else next(answers) for call in found]

    monkeypatch.setattr(CountedScripts, "run_all", fail_one)
    time.sleep(3.1)
    if failing == "rate_reserve":
        with pytest.raises(TransientError, match="gone"):
            limiter.reserve(HIGH_LIMITS, make_ticket("next"), 100)
        assert calls == [1, 1]
        assert usage_of(redis_task, HIGH_LIMITS)[0]["tokens"] == "20"
    else:
        assert wait_of(limiter, HIGH_LIMITS, make_ticket("next"), 100) == 0
        assert "replies of model m that are not recorded for its rate limit: 1; gone" in caplog.text
        assert usage_of(redis_task, HIGH_LIMITS)[0]["tokens"] == "210", "the lost record's reservation counts"


def test_as_many_records_as_a_call_takes_are_sent_at_once(redis_task: TaskOnRedis) -> None:
    limiter, calls = counted_limiter(redis_task, slot=4)
    for _ in range(MAX_RECORDS + 1):
        request(limiter, HIGH_LIMITS, 10)
    assert calls == [1, MAX_RECORDS]
    assert usage_of(redis_task, HIGH_LIMITS)[0]["tokens"] == str(10 * (MAX_RECORDS + 1))


def test_requests_of_all_teams_to_a_server_are_recorded_in_one_call(redis_task: TaskOnRedis) -> None:
    limiter, calls = counted_limiter(redis_task, slot=4)
    buckets = Buckets(redis_task.keys, LIMITS)
    tickets = [make_ticket(f"t{number}", f"tenant{number % 2}", f"team{number % 3}") for number in range(4)]
    for ticket in tickets:
        assert wait_of(limiter, OF_OPERATOR, ticket, 20) == 0
    for ticket in tickets:
        limiter.record_usage(OF_OPERATOR, ticket, 7)
    until(lambda: calls == [1, 3], 10, "the other three are recorded together")
    client: Any = redis_task.client
    for ticket in tickets:
        teams, operators = buckets.of(OF_OPERATOR, ticket.tenant, ticket.team)
        assert client.hget(teams.keys[0], "tokens") == "7"
        assert client.hget(operators.keys[0], "tokens") == "28"


def test_a_call_takes_a_command_for_each_record_and_five_for_a_limit(redis_task: TaskOnRedis) -> None:
    """The fewest of several are counted: other commands may run meanwhile."""
    scripts = Scripts(redis_task.client)
    limiter = RedisRateLimiter(scripts, redis_task.keys, LIMITS, slot=4)
    records = UsageRecords(scripts, 61_000, 4_000)
    counts: list[int] = []
    for part in range(3):
        names = [f"t{part}-{number}" for number in range(10)]
        for name in names:
            assert wait_of(limiter, HIGH_LIMITS, make_ticket(name), 100) == 0
        records.flush("server", 0)
        records.add("server", record_of(redis_task, HIGH_LIMITS, "unknown", 30, time.monotonic()))
        records.flush("server", 0)
        before = commands(redis_task.client)
        for name in names:
            records.add("server", record_of(redis_task, HIGH_LIMITS, name, 30, time.monotonic()))
        records.flush("server", 0)
        counts.append(commands(redis_task.client) - before)
    assert min(counts) == 5 + len(names)


def test_a_turn_that_would_wait_counts_the_kept_records_first(redis_task: TaskOnRedis) -> None:
    limiter, calls = counted_limiter(redis_task, slot=4)
    for name in "ab":
        assert wait_of(limiter, TOKEN_LIMITED, make_ticket(name), 50) == 0
    for name in "ab":
        limiter.record_usage(TOKEN_LIMITED, make_ticket(name), 10)
    assert calls == [1], "the second is kept"
    assert wait_of(limiter, TOKEN_LIMITED, make_ticket("c"), 80) == 0
    assert calls == [1, 1]


def test_each_record_is_sent_at_once_while_tickets_wait(redis_task: TaskOnRedis) -> None:
    limiter, calls = counted_limiter(redis_task, slot=1)
    for name in "abcd":
        assert wait_of(limiter, TOKEN_LIMITED, make_ticket(name), 25) == 0
    assert wait_of(limiter, TOKEN_LIMITED, make_ticket("waits"), 95) > 0
    for name in "abcd":
        limiter.record_usage(TOKEN_LIMITED, make_ticket(name), 1)
    assert calls == [1, 1, 1, 1]


def record_of(task: TaskOnRedis, profile: ModelProfile, name: str, used: int, sent_at: float) -> UsageRecord:
    """Return the record of an admitted request."""
    buckets = Buckets(task.keys, LIMITS)
    usages = tuple((one.keys[0], one.tokens) for one in buckets.of(profile, "", "desk"))
    return UsageRecord(profile.model, buckets.admission_key(profile, make_ticket(name)), usages, used, sent_at)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 300), st.floats(0, 3)), min_size=1, max_size=12),
    st.lists(st.lists(st.integers(0, 11), min_size=1, max_size=5), max_size=6),
)
def test_records_count_once_in_any_order(
    redis_task: TaskOnRedis, requests: list[tuple[int, float]], batches: list[list[int]]
) -> None:
    """Some are lost, some come twice, all of them late. The tokens of a request without a record stay reserved."""
    redis_task.wipe()
    scripts = CountedScripts(redis_task.client)
    limiter = RedisRateLimiter(scripts, redis_task.keys, LIMITS)
    records = UsageRecords(scripts, 61_000, 1_000)
    expected = dict.fromkeys(range(len(requests)), 100)
    for number in expected:
        assert wait_of(limiter, OF_OPERATOR, make_ticket(f"t{number}"), 100) == 0
    for batch in batches:
        for number in (index for index in batch if index in expected):
            used, seconds_ago = requests[number]
            at = time.monotonic() - seconds_ago
            records.add("server", record_of(redis_task, OF_OPERATOR, f"t{number}", used, at))
            expected[number] = used
        records.flush("server", 0)
    for usage in usage_of(redis_task, OF_OPERATOR):
        slots = slots_of(usage)
        assert int(usage["requests"]) == len(requests) == sum(n for slot, n in slots.items() if slot.endswith("r"))
        assert int(usage["tokens"]) == sum(expected.values())
        assert int(usage["tokens"]) == sum(n for slot, n in slots.items() if slot.endswith("t"))


def test_a_late_record_counts_in_the_slot_in_which_its_request_was_sent(redis_task: TaskOnRedis) -> None:
    limiter = RedisRateLimiter(Scripts(redis_task.client), redis_task.keys, LIMITS, slot=0.5)
    assert wait_of(limiter, HIGH_LIMITS, make_ticket("a"), 100) == 0
    time.sleep(0.5)  # the request is sent in a later slot than that of its admission
    until(lambda: time.time() % 0.5 < 0.1, 5, "a slot begins")
    sent_at, slot = time.monotonic(), int(time.time() / 0.5)
    time.sleep(1.1)  # its record is later than that slot, and the one after it
    records = UsageRecords(Scripts(redis_task.client), 61_000, 500)
    records.add("server", record_of(redis_task, HIGH_LIMITS, "a", 30, sent_at))
    counts = {name: count for name, count in slots_of(usage_of(redis_task, HIGH_LIMITS)[0]).items() if count}
    assert counts in [{f"{at}r": 1, f"{at}t": 30} for at in (slot, slot + 1)], "a stall on the way makes it later"


def test_a_record_after_the_end_of_its_admission_changes_nothing(redis_task: TaskOnRedis) -> None:
    """Redis keeps no key for it: one without a time to live would remain for good."""
    limiter = RedisRateLimiter(Scripts(redis_task.client), redis_task.keys, LIMITS, 0.05, 0.05, 0.01)
    assert wait_of(limiter, HIGH_LIMITS, make_ticket("a"), 100) == 0
    until(lambda: not redis_task.names(), 5, "all keys have expired")
    limiter.record_usage(HIGH_LIMITS, make_ticket("a"), 30)
    assert redis_task.names() == []


@pytest.mark.parametrize("lost", ["admission", "usage"])
def test_a_record_whose_data_redis_has_lost_changes_nothing(redis_task: TaskOnRedis, lost: str) -> None:
    """As after a failover to a replica that was late."""
    client: Any = redis_task.client
    limiter = RedisRateLimiter(Scripts(client), redis_task.keys, LIMITS)
    assert wait_of(limiter, HIGH_LIMITS, make_ticket("a"), 100) == 0
    (name,) = (name for name in redis_task.names() if (":admission:" in name) == (lost == "admission"))
    client.delete(name)
    limiter.record_usage(HIGH_LIMITS, make_ticket("a"), 30)
    (usage,) = usage_of(redis_task, HIGH_LIMITS)
    assert usage.get("tokens") == ("100" if lost == "admission" else None)
    assert len(redis_task.names()) == (lost == "admission"), "no key without a time to live"


def test_a_record_that_redis_does_not_get_leaves_the_reservation(
    redis_task: TaskOnRedis, unreachable_task: TaskOnRedis, caplog: pytest.LogCaptureFixture
) -> None:
    limiter = RedisRateLimiter(Scripts(redis_task.client), redis_task.keys, LIMITS)
    assert wait_of(limiter, HIGH_LIMITS, make_ticket("a"), 100) == 0
    with caplog.at_level(logging.WARNING):
        unreachable_task.rates.record_usage(HIGH_LIMITS, make_ticket("a"), 30)
    assert "replies of model m that are not recorded for its rate limit: 1; redis does not answer" in caplog.text
    assert usage_of(redis_task, HIGH_LIMITS)[0]["tokens"] == "100"


def test_a_failed_call_of_the_thread_does_not_end_it(
    redis_task: TaskOnRedis, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    limiter, calls = counted_limiter(redis_task, slot=4)
    run_all = CountedScripts.run_all
    errors: list[Exception] = [TransientError("gone"), RuntimeError("broken"), SystemError("raised")]

    def failing(self: CountedScripts, found: Any) -> list[Any]:
        if threading.current_thread().name != "roboco-usage-records" or not found or not errors:
            return run_all(self, found)
        if isinstance(error := errors.pop(0), SystemError):
            raise error
        return [error] * len(found)

    monkeypatch.setattr(CountedScripts, "run_all", failing)
    request(limiter, HIGH_LIMITS, 10)
    for left in (2, 1, 0):
        request(limiter, HIGH_LIMITS, 10)
        until(lambda left=left: len(errors) == left, 10, "the thread has failed")  # type: ignore[misc]
    request(limiter, HIGH_LIMITS, 10)
    until(lambda: sum(calls) == 2, 10, "the last one is recorded")
    assert "replies of model m that are not recorded for its rate limit: 1; gone" in caplog.text
    assert "RuntimeError: broken" in caplog.text
    assert "SystemError: raised" in caplog.text


def test_a_process_without_further_threads_sends_each_record(
    redis_task: TaskOnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    limiter, calls = counted_limiter(redis_task)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    for _ in range(3):
        request(limiter, HIGH_LIMITS, 10)
    assert calls == [1, 1, 1]


@pytest.mark.parametrize(("end", "tokens"), [("sys.exit()", 30), ("os._exit(0)", 210)])
def test_a_process_that_ends_by_itself_sends_its_records_and_one_that_dies_does_not(
    redis_task: TaskOnRedis, valkey: ValkeyServer, end: str, tokens: int
) -> None:
    """The reservations of the lost records count until their slots do not."""
    program = f"""
import os, sys
from roboco.redis.client import connect
from roboco.redis.keys import Keys
from roboco.redis.rate_limits import RedisRateLimiter
from roboco.redis.scripts import Scripts
from roboco.domain.team.model_limits import ModelLimits
from roboco.domain.team.model_profile import ModelProfile
from roboco.ports.rate_limits import Admitted, Ticket

profile = ModelProfile(**{HIGH_LIMITS.model_dump(exclude_defaults=True)!r})
scripts, keys = Scripts(connect({valkey.url!r})), Keys({redis_task.keys.prefix!r})
limiter = RedisRateLimiter(scripts, keys, ModelLimits(), slot=20)
for name in "abc":
    assert isinstance(limiter.reserve(profile, Ticket(name, "desk", "1/1/0"), 100), Admitted)
    limiter.record_usage(profile, Ticket(name, "desk", "1/1/0"), 10)
{end}
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert usage_of(redis_task, HIGH_LIMITS)[0]["tokens"] == str(tokens)
