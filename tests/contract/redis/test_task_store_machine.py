"""The ports of a task in memory and on Redis return the same for any sequence of commands, stale ones included.

Redis is compared twice: the second client sends every command twice, with the same results.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from roboco.domain.history.part import ToolOutcome, ToolResult, failed_outcome
from roboco.domain.status import TaskStatus
from roboco.local.valkey import ValkeyServer
from roboco.ports.snapshot import Decision, Phase, TokenUsage
from roboco.redis import task_store as redis_task_store
from tests.contract.machine_settings import MACHINE_SETTINGS
from tests.contract.redis.driver import CALLS, STEPS, Driver, assert_same
from tests.contract.redis.drivers import Clients, connected, make_drivers
from tests.contract.samples import status_event
from tests.support.memory_ports import task_store as memory_task_store

BACK = st.sampled_from([0] * 8 + [1, 2, -1])
"""How far an argument's epoch is behind the current one; mostly it is the current one."""
NEAR = st.sampled_from([0] * 6 + [-1, 1])
"""How far a position or attempt is ahead of the right one."""
AT = st.one_of(st.just((0, 0)), st.tuples(BACK, NEAR))
"""A pair of both; half of the pairs are right."""
TOKENS = st.sampled_from(["me", "me", "you"])
CALL_IDS = st.sampled_from(CALLS)
ITEMS = st.sampled_from(["one", "two", "three"])
ENDS = st.sampled_from(["nothing", "all", "unclaimed"])
EVENTS = st.lists(st.sampled_from([status_event("a"), status_event("b")]), max_size=2)
DECISIONS = st.builds(
    Decision,
    phase=st.sampled_from([Phase.TURN, Phase.TURN, Phase.TOOLS, Phase.TOOLS, *Phase]),
    status=st.sampled_from([TaskStatus.RUNNING, TaskStatus.USER_TURN]),
    reason=st.sampled_from(["", "für dich"]),
    agent=st.sampled_from(["", "writer"]),
    routing=st.sampled_from([None, {"rule": "ü"}]),
    seen_item_ids=st.sampled_from([None, None, frozenset(), frozenset({"one"}), frozenset({"one", "two", "gone"})]),
)
OUTCOMES = st.sampled_from(
    [ToolOutcome(result=ToolResult(tool_call_id="tc_1", result={"a": 1})), failed_outcome("tc_1", "late")]
)
USAGES = st.builds(TokenUsage, st.integers(0, 3), st.integers(0, 3))
STAGES = st.sampled_from(["idle", "turn", "claimed", "emitted", "interrupted", "tools", "called"])
PASSING_TIMES = st.sampled_from([25.0, 70.0])
"""Seconds. No sum of them is close to the end of a lease, a deferral or a retention."""
RETENTION = 137
"""Seconds for which an ended task is kept."""


class TaskStoreMachine(RuleBasedStateMachine):
    """One task with its leases, inbox and logs, on the servers to which `clients` are connected."""

    def __init__(self, clients: Clients) -> None:
        super().__init__()
        self.drivers = make_drivers(clients)
        self.observed: dict[str, Any] = self.drivers[0].read_state()
        self.command_count = 0
        self.expiring = False

    def teardown(self) -> None:
        """Remove all data of the servers."""
        for driver in self.drivers:
            driver.wipe()

    @initialize(count=st.sampled_from([1, 3, 7]), stage=STAGES)
    def start(self, count: int, stage: str) -> None:
        self.create(count, [])
        self.bring_to(stage)

    @rule(stage=STAGES)
    @precondition(lambda self: self.exists() and not self.expiring)
    def bring_to(self, stage: str) -> None:
        """Run the commands that lead to this stage, since random commands seldom reach it."""
        phase = Phase.TOOLS if stage in ("tools", "called") else Phase.TURN
        if stage != "idle":
            self.record_decision(0, Decision(phase, TaskStatus.RUNNING, agent="writer"), [])
        if stage in ("claimed", "emitted", "interrupted"):
            self.claim((0, 0), 0, "me", 3)
        if stage in ("emitted", "interrupted"):
            self.emit(0, "me", 1, TokenUsage(5, 3))
        if stage == "interrupted":
            self.add_items(["one"], "all", None)
        if stage == "called":
            self.claim_call((0, 0), "tc_1", "me")

    def do(self, command: str, act: Callable[[Driver], object]) -> None:
        """Run the command on every implementation, and compare the results and the states."""
        self.command_count += 1
        assert_same(self.drivers, command, act)
        assert_same(self.drivers, f"{command}, then read_state", Driver.read_state)
        self.observed = self.drivers[0].read_state()
        self.expiring = self.expiring and self.exists()

    @property
    def phase(self) -> Phase | None:
        """The phase of the task, or None if it does not exist."""
        return None if self.observed["task"] is None else Phase(self.observed["task"]["phase"])

    @property
    def room(self) -> bool:
        """True if there are steps left to commit."""
        return self.observed["task"] is None or self.observed["task"]["seq"] < len(STEPS) - 2

    def exists(self) -> bool:
        """Return True if the store holds the task. Commands for a task that it does not hold are rare."""
        return self.phase is not None

    def mostly(self, phase: Phase) -> bool:
        """Return True if the task is in this phase. Return True for every eighth command in any phase."""
        return not self.expiring and (self.phase is phase or self.command_count % 8 == 0)

    # TaskStore

    @rule(count=st.sampled_from([1, 1, 3, 7]), events=EVENTS)
    @precondition(lambda self: not self.exists() or self.command_count % 8 == 0)
    def create(self, count: int, events: list[Any]) -> None:
        self.do(f"create {count}", lambda driver: driver.create(count, events))

    @rule(count=st.sampled_from([1, 1, 3, 7]), decision=DECISIONS, events=EVENTS)
    @precondition(lambda self: not self.exists() or self.command_count % 8 == 0)
    def create_with_decision(self, count: int, decision: Decision, events: list[Any]) -> None:
        self.do(
            f"create_with_decision {count} {decision}",
            lambda driver: driver.create_with_decision(count, decision, events),
        )

    @rule(back=BACK, decision=DECISIONS, events=EVENTS)
    @precondition(lambda self: not self.expiring)
    def record_decision(self, back: int, decision: Decision, events: list[Any]) -> None:
        self.do(f"record_decision {back} {decision}", lambda driver: driver.record_decision(back, decision, events))

    @rule(back=BACK, ahead=NEAR, events=EVENTS)
    @precondition(lambda self: self.room and not self.expiring)
    def commit(self, back: int, ahead: int, events: list[Any]) -> None:
        self.do(f"commit {back} {ahead}", lambda driver: driver.commit(back, ahead, events))

    @rule(back=BACK, ahead=NEAR, decision=DECISIONS, events=EVENTS)
    @precondition(lambda self: self.room and not self.expiring)
    def commit_with_decision(self, back: int, ahead: int, decision: Decision, events: list[Any]) -> None:
        self.do(
            f"commit_with_decision {back} {ahead} {decision}",
            lambda driver: driver.commit_with_decision(back, ahead, decision, events),
        )

    @rule(back=BACK)
    @precondition(lambda self: self.observed["chunks"] or self.command_count % 8 == 0)
    def reset_logs(self, back: int) -> None:
        self.do(f"reset_logs {back}", lambda driver: driver.reset_logs(back))

    @rule()
    @precondition(lambda self: (self.phase is Phase.END or self.command_count % 8 == 0) and not self.expiring)
    def expire(self) -> None:
        """Let an ended task expire. After that, only commands for a task in any state follow."""
        ended = self.phase is Phase.END
        self.do("expire", lambda driver: driver.expire(RETENTION))
        self.expiring = ended

    @rule()
    @precondition(lambda self: self.exists() and self.command_count % 30 == 29)
    def wipe(self) -> None:
        self.do("wipe", Driver.wipe)

    @rule(seconds=PASSING_TIMES)
    def pass_time(self, seconds: float) -> None:
        self.do(f"pass_time {seconds}", lambda driver: driver.pass_time(seconds))

    # Leases of turns

    @rule(at=AT, attempt=NEAR, token=TOKENS, tail=st.sampled_from([1, 3, 10]))
    @precondition(lambda self: self.mostly(Phase.TURN))
    def claim(self, at: tuple[int, int], attempt: int, token: str, tail: int) -> None:
        self.do(f"claim {at} {attempt} {token}", lambda driver: driver.claim(*at, attempt, token, tail))

    @rule(back=BACK, token=TOKENS, number=st.integers(1, 4), used=USAGES)
    @precondition(lambda self: self.mostly(Phase.TURN))
    def emit(self, back: int, token: str, number: int, used: TokenUsage) -> None:
        self.do(f"emit {back} {token} {number}", lambda driver: driver.emit(back, token, number, used))

    @rule(back=BACK, token=TOKENS)
    @precondition(lambda self: self.mostly(Phase.TURN))
    def renew(self, back: int, token: str) -> None:
        self.do(f"renew {back} {token}", lambda driver: driver.renew(back, token))

    @rule(back=BACK)
    @precondition(lambda self: self.command_count % 3 == 0)
    def cancel_request(self, back: int) -> None:
        self.do(f"cancel_request {back}", lambda driver: driver.cancel_request(back))

    @rule(back=BACK, token=TOKENS, seconds=st.sampled_from([-1.0, 30.0, 100.0]), refused=st.booleans())
    @precondition(lambda self: self.mostly(Phase.TURN))
    def defer(self, back: int, token: str, seconds: float, refused: bool) -> None:
        self.do(f"defer {back} {token} {seconds}", lambda driver: driver.defer(back, token, seconds, refused))

    @rule(back=BACK, token=st.sampled_from(["", "", "me", "you"]))
    @precondition(lambda self: not self.expiring)
    def restart(self, back: int, token: str) -> None:
        self.do(f"restart {back} {token}", lambda driver: driver.restart(back, token))

    @rule(back=BACK, again=st.booleans())
    @precondition(lambda self: self.command_count % 3 == 0)
    def count_redelivery(self, back: int, again: bool) -> None:
        self.do(f"count_redelivery {back} {again}", lambda driver: driver.count_redelivery(back, again))

    # Leases of calls

    @rule(at=AT, call_id=CALL_IDS, token=TOKENS)
    @precondition(lambda self: self.mostly(Phase.TOOLS))
    def claim_call(self, at: tuple[int, int], call_id: str, token: str) -> None:
        self.do(
            f"claim_call {at} {call_id} {token}",
            lambda driver: driver.claim_call(at, call_id, token),
        )

    @rule(at=AT, call_id=CALL_IDS, token=TOKENS)
    @precondition(lambda self: self.mostly(Phase.TOOLS))
    def renew_call(self, at: tuple[int, int], call_id: str, token: str) -> None:
        self.do(
            f"renew_call {at} {call_id} {token}",
            lambda driver: driver.renew_call(at, call_id, token),
        )

    @rule(at=AT, call_id=CALL_IDS, token=st.sampled_from(["me", "you", None]), outcome=OUTCOMES)
    @precondition(lambda self: self.mostly(Phase.TOOLS))
    def record(self, at: tuple[int, int], call_id: str, token: str | None, outcome: ToolOutcome) -> None:
        self.do(
            f"record {at} {call_id} {token}",
            lambda driver: driver.record(at, call_id, token, outcome),
        )

    @rule(at=AT, call_id=CALL_IDS, token=TOKENS)
    @precondition(lambda self: self.mostly(Phase.TOOLS))
    def release_call(self, at: tuple[int, int], call_id: str, token: str) -> None:
        self.do(
            f"release_call {at} {call_id} {token}",
            lambda driver: driver.release_call(at, call_id, token),
        )

    @rule(at=AT, call_id=CALL_IDS, lost=st.booleans())
    @precondition(lambda self: self.mostly(Phase.TOOLS))
    def restart_call(self, at: tuple[int, int], call_id: str, lost: bool) -> None:
        self.do(
            f"restart_call {at} {call_id} {lost}",
            lambda driver: driver.restart_call(at, call_id, lost),
        )

    # The inbox, EventLogs

    @rule(items=st.lists(ITEMS, max_size=2), ends=ENDS, back=st.one_of(st.none(), BACK))
    def add_items(self, items: list[str], ends: str, back: int | None) -> None:
        self.do(f"add_items {items} {ends} {back}", lambda driver: driver.add_items(items, ends, back))

    @rule(back=BACK)
    @precondition(lambda self: self.command_count % 3 == 0)
    def clear_cancellation(self, back: int) -> None:
        self.do(f"clear_cancellation {back}", lambda driver: driver.clear_cancellation(back))

    @rule(item=ITEMS)
    @precondition(lambda self: self.command_count % 3 == 0)
    def remove_item(self, item: str) -> None:
        self.do(f"remove_item {item}", lambda driver: driver.remove_item(item))

    @rule(after=st.integers(0, 12))
    @precondition(lambda self: self.command_count % 3 == 0)
    def read_logs(self, after: int) -> None:
        self.do(f"read_logs {after}", lambda driver: driver.read_logs(after))

    @rule(archived=st.integers(0, 9), kept=st.integers(0, 3), chunks=st.integers(0, 3))
    def trim_logs(self, archived: int, kept: int, chunks: int) -> None:
        command = f"trim_logs {archived} {kept} {chunks}"
        self.do(command, lambda driver: driver.trim_logs(archived, kept, chunks))


@pytest.mark.redis
@pytest.mark.parametrize("examples", [20, pytest.param(50, marks=pytest.mark.nightly)])
def test_a_task_in_memory_and_on_redis_is_the_same(
    examples: int, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (memory_task_store, redis_task_store):
        monkeypatch.setattr(module, "MAX_TAIL_STEPS", 5)
    profile = settings(MACHINE_SETTINGS, max_examples=examples, stateful_step_count=60)
    with connected(valkey.url) as clients:
        machine: Any = partial(TaskStoreMachine, clients)
        run_state_machine_as_test(machine, settings=profile)
