"""The schedule, attempts and dead letters in memory and on Redis answer the same to any sequence of commands."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from roboco.adapters.local.valkey import ValkeyServer
from roboco.adapters.redis import dead_letters as redis_dead
from roboco.domain.dead_letter import dead_letter_of_lost_work
from roboco.domain.paths import NOTIFY_PREFIX
from tests.contract.machine_settings import MACHINE_SETTINGS
from tests.contract.redis.driver import Driver, assert_same
from tests.contract.redis.drivers import Clients, connected, make_drivers
from tests.support.memory_ports import schedule as memory_schedule

TASKS = st.sampled_from(["a", "b", "c", f"{NOTIFY_PREFIX}a"])
DELAYS = st.sampled_from([-200.0, 0.0, 30.0, 100.0])
"""Seconds: no two differ by so little, or by a sum of the moves, that a slow test changes their order."""
MOVES = st.sampled_from([45.0, 80.0])
KEYS = st.sampled_from(["a", "b"])
MAX_LETTERS = 3


class BookkeepingMachine(RuleBasedStateMachine):
    """What the sweeper works from."""

    def __init__(self, clients: Clients) -> None:
        super().__init__()
        self.drivers = make_drivers(clients)
        self.buried = 0

    def teardown(self) -> None:
        """Remove what the servers hold."""
        for driver in self.drivers:
            driver.wipe()

    def do(self, command: str, act: Callable[[Driver], object]) -> None:
        """Have all sides do it, and compare what they answer and what the schedule holds then."""
        assert_same(self.drivers, command, act)
        assert_same(self.drivers, f"{command}, looked at", Driver.known)

    @rule(task_id=TASKS, delay=DELAYS)
    def put(self, task_id: str, delay: float) -> None:
        self.do(f"put {task_id} {delay}", lambda driver: driver.put(task_id, delay))

    @rule(task_id=TASKS, delay=DELAYS)
    def add(self, task_id: str, delay: float) -> None:
        self.do(f"add {task_id} {delay}", lambda driver: driver.add(task_id, delay))

    @rule(task_id=TASKS, delay=DELAYS)
    def schedule_no_later_than(self, task_id: str, delay: float) -> None:
        self.do(
            f"schedule_no_later_than {task_id} {delay}", lambda driver: driver.schedule_no_later_than(task_id, delay)
        )

    @rule(limit=st.integers(1, 4))
    def due(self, limit: int) -> None:
        self.do(f"due {limit}", lambda driver: driver.due(limit))

    @rule(task_id=TASKS)
    def drop(self, task_id: str) -> None:
        self.do(f"drop {task_id}", lambda driver: driver.drop(task_id))

    @rule(token=st.sampled_from(["me", "you"]))
    def lock(self, token: str) -> None:
        self.do(f"lock {token}", lambda driver: driver.lock(token, 60.0))

    @rule()
    def begin(self) -> None:
        self.do("begin", lambda driver: driver.mark_filled(60.0))

    @rule()
    def look(self) -> None:
        self.do("intact, restarted, fresh", Driver.read_marks)

    @rule(seconds=MOVES)
    def pass_time(self, seconds: float) -> None:
        self.do(f"pass {seconds} s", lambda driver: driver.pass_time(seconds))

    @rule(sure=st.integers(0, 9))
    def wipe(self, sure: int) -> None:
        if sure == 9:
            self.do("wipe", Driver.wipe)

    @rule(key=KEYS)
    def attempt(self, key: str) -> None:
        self.do(f"attempt {key}", lambda driver: driver.start_attempt(key))

    @rule(key=KEYS)
    def renew(self, key: str) -> None:
        self.do(f"renew {key}", lambda driver: driver.renew_attempt(key))

    @rule(key=KEYS)
    def count(self, key: str) -> None:
        self.do(f"count {key}", lambda driver: driver.start_attempt_without_lease(key))

    @rule(key=KEYS)
    def end(self, key: str) -> None:
        self.do(f"end {key}", lambda driver: driver.finish_attempt(key))

    @rule(name=st.sampled_from(["a", "b", "c", "d", "e"]))
    def add_letter(self, name: str) -> None:
        self.buried += 1
        time = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=self.buried)
        letter = dead_letter_of_lost_work("turn", name, "", "lost", self.buried, time)
        self.do(f"bury {name}", lambda driver: driver.add_letter(letter))

    @rule(name=st.sampled_from(["a", "b", "c", "d", "e"]))
    def remove(self, name: str) -> None:
        letter = dead_letter_of_lost_work("turn", name, "", "lost", 1, datetime(2026, 1, 1, tzinfo=UTC))
        self.do(f"remove {name}", lambda driver: driver.remove_letter(letter.letter_id))


@pytest.mark.redis
def test_the_bookkeeping_in_memory_and_on_redis_is_the_same(
    valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for dead in (memory_schedule, redis_dead):
        monkeypatch.setattr(dead, "MAX_LETTERS", MAX_LETTERS)
    with connected(valkey.url) as clients:
        made: Any = partial(BookkeepingMachine, clients)
        run_state_machine_as_test(made, settings=settings(MACHINE_SETTINGS, max_examples=40, stateful_step_count=40))
