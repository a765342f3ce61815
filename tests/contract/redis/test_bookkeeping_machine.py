"""The schedule, attempts and dead letters in memory and on Redis return the same for any sequence of commands."""

from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest
from hypothesis import strategies as st

from roboco.domain.dead_letter import DeadLetter, dead_letter_of_lost_work
from roboco.domain.ids import shard_of
from roboco.domain.paths import NOTIFY_PREFIX
from roboco.local.valkey import ValkeyServer
from roboco.ports.schedule import FillKind, FillPhase, FillPosition
from roboco.redis import dead_letters as redis_dead_letters
from tests.contract.machine_settings import Command
from tests.contract.redis.driver import Driver
from tests.contract.redis.drivers import PortsMachine, run_machine
from tests.contract.redis.sweeper.due_names import due_at
from tests.support.memory_ports import schedule as memory_schedule

NAMES = ["a", "b", "c", f"{NOTIFY_PREFIX}a"]
TASKS = st.sampled_from(NAMES)
DELAYS = st.sampled_from([-200.0, 0.0, 30.0, 100.0])
"""Seconds. Their differences, and those to sums of PASSING_TIMES, are so large that a slow test keeps the order."""
PASSING_TIMES = st.sampled_from([45.0, 80.0])
KEYS = st.sampled_from(["a", "b"])
TOKENS = st.sampled_from(["me", "you"])
LETTERS = st.sampled_from(["a", "b", "c", "d", "e"])
MAX_LETTERS = 3
FIRST = FillPosition(FillKind.REFILL, FillPhase.OPEN)


def next_position(cursor: str) -> FillPosition:
    return FillPosition(FillKind.EMPTIED, FillPhase.NOTIFY, cursor, frozenset({1, 2}), frozenset({15}))


def due(driver: Driver) -> object:
    schedule = driver.reader.schedule
    return [name for name in NAMES if (at := due_at(schedule, name)) is not None and at <= schedule.time()]


def claim_entries(driver: Driver, name: str) -> object:
    """Claim by the reader: a claim that is sent twice would claim others."""
    return sorted(entry.name for entry in driver.reader.schedule.claim(shard_of(name), 10, 60.0))


def read_marks(driver: Driver) -> object:
    schedule = driver.task.schedule
    return (schedule.is_intact(), schedule.was_restarted(), schedule.recently_filled())


def letter(name: str, number: int) -> DeadLetter:
    time = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number)
    return dead_letter_of_lost_work("turn", name, "", "lost", number, time)


def add_letter(driver: Driver, name: str) -> object:
    driver.letter_count += 1
    driver.task.dead_letters.add(letter(name, driver.letter_count))
    return driver.reader.dead_letters.entries()


def remove_letter(driver: Driver, name: str) -> object:
    letter_id = letter(name, 1).letter_id
    found = driver.reader.dead_letters.get(letter_id)
    driver.task.dead_letters.remove(letter_id)
    return (found, driver.reader.dead_letters.entries())


class BookkeepingMachine(PortsMachine):
    """The data from which the sweeper works."""

    commands: ClassVar = {
        "set": Command(lambda driver, *given: driver.task.schedule.set(*given), TASKS, DELAYS),
        "no later": Command(lambda driver, *given: driver.task.schedule.schedule_no_later_than(*given), TASKS, DELAYS),
        "due": Command(due),
        "remove": Command(lambda driver, task_id: driver.task.schedule.remove(task_id), TASKS),
        "claim": Command(claim_entries, TASKS),
        "enter": Command(
            lambda driver, *given: driver.task.schedule.enter(*given),
            st.lists(TASKS, unique=True),
            DELAYS,
            st.booleans(),
        ),
        "claim_fill": Command(
            lambda driver, mark, token: driver.task.schedule.claim_fill(mark, FIRST, token, 60.0),
            st.sampled_from(["old", "new"]),
            TOKENS,
        ),
        "advance_fill": Command(
            lambda driver, token, cursor: driver.task.schedule.advance_fill(token, next_position(cursor), 0.0),
            TOKENS,
            st.sampled_from(["", "a|b", "task"]),
        ),
        "finish_fill": Command(lambda driver, token: driver.task.schedule.finish_fill(token), TOKENS),
        "mark_filled": Command(lambda driver: driver.task.schedule.mark_filled(60.0)),
        "read_marks": Command(read_marks),
        "pass_time": Command(Driver.pass_time, PASSING_TIMES),
        "wipe": Command(Driver.wipe, when=lambda machine: machine.command_count % 30 == 29),
        "start_attempt": Command(lambda driver, key: driver.task.leases.start_attempt(key), KEYS),
        "renew_attempt": Command(lambda driver, key: driver.task.renew_attempt(key), KEYS),
        "count_attempt": Command(lambda driver, key: driver.task.leases.count_attempt(key), KEYS),
        "finish_attempts": Command(lambda driver, key: driver.task.leases.finish_attempts(key), KEYS),
        "add_letter": Command(add_letter, LETTERS),
        "remove_letter": Command(remove_letter, LETTERS),
    }

    def observe(self, driver: Driver) -> object:
        return sorted(driver.reader.schedule.task_ids())


@pytest.mark.redis
@pytest.mark.parametrize("examples", [10, pytest.param(40, marks=pytest.mark.nightly)])
def test_the_bookkeeping_in_memory_and_on_redis_is_the_same(
    examples: int, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (memory_schedule, redis_dead_letters):
        monkeypatch.setattr(module, "MAX_LETTERS", MAX_LETTERS)
    run_machine(BookkeepingMachine, valkey.url, examples, steps=40)
