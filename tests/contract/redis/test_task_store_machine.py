"""The ports of a task in memory and on Redis return the same for any sequence of commands, stale ones included.

Redis is compared twice: the second client sends every command twice, with the same results.
"""

from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize

from roboco.domain.history.part import ToolOutcome, ToolResult, failed_outcome
from roboco.domain.status import TaskStatus
from roboco.local.valkey import ValkeyServer
from roboco.ports.snapshot import Decision, Phase, TokenUsage
from roboco.redis import task_store as redis_task_store
from tests.contract.machine_settings import Command
from tests.contract.redis.driver import CALLS, STEPS, Driver
from tests.contract.redis.drivers import Clients, PortsMachine, run_machine
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
ENDS = st.sampled_from(["nothing", "all", "all", "unclaimed"])
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
COUNTS = st.sampled_from([1, 1, 3, 7])
PASSING_TIMES = st.sampled_from([25.0, 70.0])
"""Seconds. No sum of them is close to the end of a lease, a deferral or a retention."""
DEFERRALS = st.sampled_from([-1.0, 30.0, 100.0])
RETENTION = 137
"""Seconds for which an ended task is kept."""


def mostly_missing(machine: Any) -> bool:
    return not machine.exists or bool(machine.every(8))


def not_expiring(machine: Any) -> bool:
    return not machine.expiring


def has_room(machine: Any) -> bool:
    """Return True if there are steps left to commit."""
    return not machine.expiring and (not machine.exists or machine.observed["task"]["seq"] < len(STEPS) - 2)


def in_turn(machine: Any) -> bool:
    return bool(machine.mostly(Phase.TURN))


def in_tools(machine: Any) -> bool:
    return bool(machine.mostly(Phase.TOOLS))


def now_and_then(machine: Any) -> bool:
    return bool(machine.every(3))


class TaskStoreMachine(PortsMachine):
    """One task with its leases, inbox and logs, on the servers to which `clients` are connected."""

    def __init__(self, clients: Clients) -> None:
        super().__init__(clients)
        self.observed: dict[str, Any] = self.drivers[0].read_state()
        self.expiring = False
        """True once an ended task expires: then only commands for a task in any state follow."""

    @initialize(count=st.sampled_from([1, 3, 7]), stage=STAGES)
    def start(self, count: int, stage: str) -> None:
        self.run("create", count, [])
        self.run("bring_to", stage)

    def observe(self, driver: Driver) -> object:
        return driver.read_state()

    def run(self, name: str, *arguments: Any) -> None:
        if name == "bring_to":
            return self._bring_to(*arguments)
        ended = self.phase is Phase.END
        super().run(name, *arguments)
        self.observed = self.drivers[0].read_state()
        self.expiring = (self.expiring or (name == "expire" and ended)) and self.exists
        return None

    def _bring_to(self, stage: str) -> None:
        """Run the commands that lead to this stage, since random commands seldom reach it."""
        phase = Phase.TOOLS if stage in ("tools", "called") else Phase.TURN
        if stage != "idle":
            self.run("record_decision", 0, Decision(phase, TaskStatus.RUNNING, agent="writer"), [])
        if stage in ("claimed", "emitted", "interrupted"):
            self.run("claim", (0, 0), 0, "me", 3)
        if stage in ("emitted", "interrupted"):
            self.run("emit", 0, "me", 1, TokenUsage(5, 3))
        if stage == "interrupted":
            self.run("add_items", ["one"], "all", None)
        if stage == "called":
            self.run("claim_call", (0, 0), "tc_1", "me")

    @property
    def phase(self) -> Phase | None:
        """The phase of the task, or None if it does not exist."""
        return None if self.observed["task"] is None else Phase(self.observed["task"]["phase"])

    @property
    def exists(self) -> bool:
        """True if the store holds the task. Commands for a task that it does not hold are rare."""
        return self.phase is not None

    @property
    def has_chunks(self) -> bool:
        """True if the log has chunks."""
        return bool(self.observed["chunks"])

    def every(self, number: int) -> bool:
        """Return True for every command of this number."""
        return self.command_count % number == 0

    def mostly(self, phase: Phase) -> bool:
        """Return True if the task is in this phase. Return True for every eighth command in any phase."""
        return not self.expiring and (self.phase is phase or self.every(8))

    commands: ClassVar = {
        "bring_to": Command(Driver.wipe, STAGES, when=lambda machine: machine.exists and not machine.expiring),
        "create": Command(Driver.create, COUNTS, EVENTS, when=mostly_missing),
        "create_with_decision": Command(Driver.create_with_decision, COUNTS, DECISIONS, EVENTS, when=mostly_missing),
        "record_decision": Command(Driver.record_decision, BACK, DECISIONS, EVENTS, when=not_expiring),
        "commit": Command(Driver.commit, BACK, NEAR, EVENTS, when=has_room),
        "commit_with_decision": Command(Driver.commit_with_decision, BACK, NEAR, DECISIONS, EVENTS, when=has_room),
        "reset_logs": Command(Driver.reset_logs, BACK, when=lambda machine: machine.has_chunks or machine.every(8)),
        "expire": Command(Driver.expire, st.just(RETENTION), when=lambda machine: machine.mostly(Phase.END)),
        "wipe": Command(Driver.wipe, when=lambda machine: machine.exists and machine.command_count % 30 == 29),
        "pass_time": Command(Driver.pass_time, PASSING_TIMES),
        # turns
        "claim": Command(Driver.claim, AT, NEAR, TOKENS, st.sampled_from([1, 3, 10]), when=in_turn),
        "emit": Command(Driver.emit, BACK, TOKENS, st.integers(1, 4), USAGES, when=in_turn),
        "renew": Command(Driver.renew, BACK, TOKENS, when=in_turn),
        "cancel_request": Command(Driver.cancel_request, BACK, when=now_and_then),
        "defer": Command(Driver.defer, BACK, TOKENS, DEFERRALS, st.booleans(), when=in_turn),
        "restart": Command(Driver.restart, BACK, st.sampled_from(["", "", "me", "you"]), when=not_expiring),
        "count_redelivery": Command(Driver.count_redelivery, BACK, st.booleans(), when=now_and_then),
        # calls
        "claim_call": Command(Driver.claim_call, AT, CALL_IDS, TOKENS, when=in_tools),
        "renew_call": Command(Driver.renew_call, AT, CALL_IDS, TOKENS, when=in_tools),
        "record": Command(Driver.record, AT, CALL_IDS, st.sampled_from(["me", "you", None]), OUTCOMES, when=in_tools),
        "release_call": Command(Driver.release_call, AT, CALL_IDS, TOKENS, when=in_tools),
        "restart_call": Command(Driver.restart_call, AT, CALL_IDS, st.booleans(), when=in_tools),
        # the inbox and the logs
        "add_items": Command(Driver.add_items, st.lists(ITEMS, max_size=2), ENDS, st.sampled_from([None, 0, 1, 1, -1])),
        "clear_cancellation": Command(Driver.clear_cancellation, BACK, when=now_and_then),
        "remove_item": Command(Driver.remove_item, ITEMS, when=now_and_then),
        "read_logs": Command(Driver.read_logs, st.integers(0, 12), when=now_and_then),
        "trim_logs": Command(Driver.trim_logs, st.integers(0, 9), st.integers(0, 3), st.integers(0, 3)),
    }


@pytest.mark.redis
@pytest.mark.parametrize("examples", [16, pytest.param(50, marks=pytest.mark.nightly)])
def test_a_task_in_memory_and_on_redis_is_the_same(
    examples: int, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (memory_task_store, redis_task_store):
        monkeypatch.setattr(module, "MAX_TAIL_STEPS", 5)
    run_machine(TaskStoreMachine, valkey.url, examples, steps=60)
