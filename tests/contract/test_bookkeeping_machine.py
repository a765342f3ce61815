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
from tests.contract.machine import MACHINE
from tests.contract.side import Side, assert_same
from tests.contract.sides import Clients, connected, sides_of
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
        self.sides = sides_of(clients)
        self.buried = 0

    def teardown(self) -> None:
        """Remove what the servers hold."""
        for side in self.sides:
            side.wipe()

    def do(self, command: str, act: Callable[[Side], object]) -> None:
        """Have all sides do it, and compare what they answer and what the schedule holds then."""
        assert_same(self.sides, command, act)
        assert_same(self.sides, f"{command}, looked at", Side.known)

    @rule(task_id=TASKS, delay=DELAYS)
    def put(self, task_id: str, delay: float) -> None:
        self.do(f"put {task_id} {delay}", lambda side: side.put(task_id, delay))

    @rule(task_id=TASKS, delay=DELAYS)
    def add(self, task_id: str, delay: float) -> None:
        self.do(f"add {task_id} {delay}", lambda side: side.add(task_id, delay))

    @rule(task_id=TASKS, delay=DELAYS)
    def schedule_no_later_than(self, task_id: str, delay: float) -> None:
        self.do(f"schedule_no_later_than {task_id} {delay}", lambda side: side.schedule_no_later_than(task_id, delay))

    @rule(limit=st.integers(1, 4))
    def due(self, limit: int) -> None:
        self.do(f"due {limit}", lambda side: side.due(limit))

    @rule(task_id=TASKS)
    def drop(self, task_id: str) -> None:
        self.do(f"drop {task_id}", lambda side: side.drop(task_id))

    @rule(token=st.sampled_from(["me", "you"]))
    def lock(self, token: str) -> None:
        self.do(f"lock {token}", lambda side: side.lock(token, 60.0))

    @rule()
    def begin(self) -> None:
        self.do("begin", lambda side: side.begin_sweeps(60.0))

    @rule()
    def look(self) -> None:
        self.do("intact, restarted, fresh", Side.swept)

    @rule(seconds=MOVES)
    def pass_time(self, seconds: float) -> None:
        self.do(f"pass {seconds} s", lambda side: side.pass_time(seconds))

    @rule(sure=st.integers(0, 9))
    def wipe(self, sure: int) -> None:
        if sure == 9:
            self.do("wipe", Side.wipe)

    @rule(key=KEYS)
    def attempt(self, key: str) -> None:
        self.do(f"attempt {key}", lambda side: side.begin_attempt(key))

    @rule(key=KEYS)
    def renew(self, key: str) -> None:
        self.do(f"renew {key}", lambda side: side.renew_attempt(key))

    @rule(key=KEYS)
    def count(self, key: str) -> None:
        self.do(f"count {key}", lambda side: side.count_attempt(key))

    @rule(key=KEYS)
    def end(self, key: str) -> None:
        self.do(f"end {key}", lambda side: side.end_attempt(key))

    @rule(name=st.sampled_from(["a", "b", "c", "d", "e"]))
    def bury(self, name: str) -> None:
        self.buried += 1
        time = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=self.buried)
        letter = dead_letter_of_lost_work("turn", name, "", "lost", self.buried, time)
        self.do(f"bury {name}", lambda side: side.bury(letter))

    @rule(name=st.sampled_from(["a", "b", "c", "d", "e"]))
    def remove(self, name: str) -> None:
        letter = dead_letter_of_lost_work("turn", name, "", "lost", 1, datetime(2026, 1, 1, tzinfo=UTC))
        self.do(f"remove {name}", lambda side: side.remove_letter(letter.letter_id))


@pytest.mark.redis
def test_the_bookkeeping_in_memory_and_on_redis_is_the_same(
    valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for dead in (memory_schedule, redis_dead):
        monkeypatch.setattr(dead, "MAX_LETTERS", MAX_LETTERS)
    with connected(valkey.url) as clients:
        made: Any = partial(BookkeepingMachine, clients)
        run_state_machine_as_test(made, settings=settings(MACHINE, max_examples=40, stateful_step_count=40))
