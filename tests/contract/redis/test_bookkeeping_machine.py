"""The schedule, attempts and dead letters in memory and on Redis return the same for any sequence of commands."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from roboco.domain.dead_letter import dead_letter_of_lost_work
from roboco.domain.ids import shard_of
from roboco.domain.paths import NOTIFY_PREFIX
from roboco.local.valkey import ValkeyServer
from roboco.redis import dead_letters as redis_dead_letters
from tests.contract.machine_settings import MACHINE_SETTINGS
from tests.contract.redis.driver import Driver, assert_same
from tests.contract.redis.drivers import Clients, connected, make_drivers
from tests.support.memory_ports import schedule as memory_schedule

NAMES = ["a", "b", "c", f"{NOTIFY_PREFIX}a"]
TASKS = st.sampled_from(NAMES)
DELAYS = st.sampled_from([-200.0, 0.0, 30.0, 100.0])
"""Seconds. Their differences, and those to sums of PASSING_TIMES, are so large that a slow test keeps the order."""
PASSING_TIMES = st.sampled_from([45.0, 80.0])
KEYS = st.sampled_from(["a", "b"])
TOKENS = st.sampled_from(["me", "you"])
MAX_LETTERS = 3


class BookkeepingMachine(RuleBasedStateMachine):
    """The data from which the sweeper works."""

    def __init__(self, clients: Clients) -> None:
        super().__init__()
        self.drivers = make_drivers(clients)
        self.letter_count = 0

    def teardown(self) -> None:
        """Remove all data of the servers."""
        for driver in self.drivers:
            driver.wipe()

    def do(self, command: str, act: Callable[[Driver], object]) -> None:
        """Run the command on every implementation, and compare the results and the schedules."""
        assert_same(self.drivers, command, act)
        assert_same(self.drivers, f"{command}, then scheduled_tasks", Driver.scheduled_tasks)

    @rule(task_id=TASKS, delay=DELAYS)
    def set_time(self, task_id: str, delay: float) -> None:
        self.do(f"set_time {task_id} {delay}", lambda driver: driver.set_time(task_id, delay))

    @rule(task_id=TASKS, delay=DELAYS)
    def schedule_no_later_than(self, task_id: str, delay: float) -> None:
        self.do(
            f"schedule_no_later_than {task_id} {delay}", lambda driver: driver.schedule_no_later_than(task_id, delay)
        )

    @rule()
    def due(self) -> None:
        self.do("due", lambda driver: driver.due(NAMES))

    @rule(task_id=TASKS)
    def unschedule(self, task_id: str) -> None:
        self.do(f"unschedule {task_id}", lambda driver: driver.unschedule(task_id))

    @rule(task_id=TASKS)
    def claim_entries(self, task_id: str) -> None:
        self.do(f"claim_entries {task_id}", lambda driver: driver.claim_entries(shard_of(task_id)))

    @rule(names=st.lists(TASKS, unique=True), delay=DELAYS, replace=st.booleans())
    def enter(self, names: list[str], delay: float, replace: bool) -> None:
        self.do(f"enter {names} {delay} {replace}", lambda driver: driver.enter(names, delay, replace))

    @rule(mark=st.sampled_from(["old", "new"]), token=TOKENS)
    def claim_fill(self, mark: str, token: str) -> None:
        self.do(f"claim_fill {mark} {token}", lambda driver: driver.claim_fill(mark, token))

    @rule(token=TOKENS, cursor=st.sampled_from(["", "a|b", "task"]))
    def advance_fill(self, token: str, cursor: str) -> None:
        self.do(f"advance_fill {token} {cursor}", lambda driver: driver.advance_fill(token, cursor))

    @rule(token=TOKENS)
    def finish_fill(self, token: str) -> None:
        self.do(f"finish_fill {token}", lambda driver: driver.finish_fill(token))

    @rule()
    def mark_filled(self) -> None:
        self.do("mark_filled", lambda driver: driver.mark_filled(60.0))

    @rule()
    def read_marks(self) -> None:
        self.do("read_marks", Driver.read_marks)

    @rule(seconds=PASSING_TIMES)
    def pass_time(self, seconds: float) -> None:
        self.do(f"pass_time {seconds}", lambda driver: driver.pass_time(seconds))

    @rule(sure=st.integers(0, 9))
    def wipe(self, sure: int) -> None:
        if sure == 9:
            self.do("wipe", Driver.wipe)

    @rule(key=KEYS)
    def start_attempt(self, key: str) -> None:
        self.do(f"start_attempt {key}", lambda driver: driver.start_attempt(key))

    @rule(key=KEYS)
    def renew_attempt(self, key: str) -> None:
        self.do(f"renew_attempt {key}", lambda driver: driver.renew_attempt(key))

    @rule(key=KEYS)
    def start_attempt_without_lease(self, key: str) -> None:
        self.do(f"start_attempt_without_lease {key}", lambda driver: driver.start_attempt_without_lease(key))

    @rule(key=KEYS)
    def finish_attempt(self, key: str) -> None:
        self.do(f"finish_attempt {key}", lambda driver: driver.finish_attempt(key))

    @rule(name=st.sampled_from(["a", "b", "c", "d", "e"]))
    def add_letter(self, name: str) -> None:
        self.letter_count += 1
        time = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=self.letter_count)
        letter = dead_letter_of_lost_work("turn", name, "", "lost", self.letter_count, time)
        self.do(f"add_letter {name}", lambda driver: driver.add_letter(letter))

    @rule(name=st.sampled_from(["a", "b", "c", "d", "e"]))
    def remove_letter(self, name: str) -> None:
        letter = dead_letter_of_lost_work("turn", name, "", "lost", 1, datetime(2026, 1, 1, tzinfo=UTC))
        self.do(f"remove_letter {name}", lambda driver: driver.remove_letter(letter.letter_id))


@pytest.mark.redis
@pytest.mark.parametrize("examples", [15, pytest.param(40, marks=pytest.mark.nightly)])
def test_the_bookkeeping_in_memory_and_on_redis_is_the_same(
    examples: int, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (memory_schedule, redis_dead_letters):
        monkeypatch.setattr(module, "MAX_LETTERS", MAX_LETTERS)
    with connected(valkey.url) as clients:
        machine: Any = partial(BookkeepingMachine, clients)
        profile = settings(MACHINE_SETTINGS, max_examples=examples, stateful_step_count=40)
        run_state_machine_as_test(machine, settings=profile)
