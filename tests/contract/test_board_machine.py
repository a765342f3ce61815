"""The ports of a task in memory and on Redis answer the same to any sequence of commands, stale ones included.

Redis is there twice: once with all commands sent twice, which nobody may notice.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from roboco.adapters.local.valkey import ValkeyServer
from roboco.adapters.redis import task_store as redis_board
from roboco.domain.history.part import ToolResult
from roboco.domain.history.tool_outcome import ToolOutcome, failed_outcome
from roboco.domain.status import TaskStatus
from roboco.ports.task_store import Decision, Phase, TokenUsage
from tests.contract.machine import MACHINE
from tests.contract.samples import told
from tests.contract.side import CALLS, STEPS, Side, assert_same
from tests.contract.sides import Clients, connected, sides_of
from tests.support.memory_ports import task_store as memory_board

BACK = st.sampled_from([0] * 8 + [1, 2, -1])
"""How far an argument's epoch is behind the present one: mostly it is the present one."""
NEAR = st.sampled_from([0] * 6 + [-1, 1])
"""How far a position or attempt is ahead of the right one."""
AT = st.one_of(st.just((0, 0)), st.tuples(BACK, NEAR))
"""Both: half of the time they are right."""
TOKENS = st.sampled_from(["me", "me", "you"])
CALL_IDS = st.sampled_from(CALLS)
ITEMS = st.sampled_from(["one", "two", "three"])
ENDS = st.sampled_from(["nothing", "all", "unclaimed"])
EVENTS = st.lists(st.sampled_from([told("a"), told("b")]), max_size=2)
CHOICES = st.builds(
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
USED = st.builds(TokenUsage, st.integers(0, 3), st.integers(0, 3))
STAGES = st.sampled_from(["idle", "turn", "claimed", "said", "urged", "tools", "called"])
MOVES = st.sampled_from([25.0, 70.0])
"""Seconds that pass at once: no sum of these is close to the end of a lease, or of what else ends here."""
KEPT_FOR = 137
"""Seconds for which an ended task is kept."""


class BoardMachine(RuleBasedStateMachine):
    """One task with its leases, inbox and logs, on servers that `clients` are connected to."""

    def __init__(self, clients: Clients) -> None:
        super().__init__()
        self.sides = sides_of(clients)
        self.seen: dict[str, Any] = self.sides[0].seen()
        self.done = 0
        self.left = False

    def teardown(self) -> None:
        """Remove what the servers hold."""
        for side in self.sides:
            side.wipe()

    @initialize(count=st.sampled_from([1, 3, 7]), stage=STAGES)
    def begin(self, count: int, stage: str) -> None:
        self.create(count, [])
        self.bring_to(stage)

    @rule(stage=STAGES)
    @precondition(lambda self: self.known() and not self.left)
    def bring_to(self, stage: str) -> None:
        """Commands that fit, since chance alone seldom comes so far."""
        phase = Phase.TOOLS if stage in ("tools", "called") else Phase.TURN
        if stage != "idle":
            self.choose(0, Decision(phase, TaskStatus.RUNNING, agent="writer"), [])
        if stage in ("claimed", "said", "urged"):
            self.claim((0, 0), 0, "me", 3)
        if stage in ("said", "urged"):
            self.emit(0, "me", 1, TokenUsage(5, 3))
        if stage == "urged":
            self.knock(["one"], "all", None)
        if stage == "called":
            self.claim_call((0, 0), "tc_1", "me")

    def do(self, command: str, act: Callable[[Side], object]) -> None:
        """Have all sides do it, and compare what they answer and what they hold then."""
        self.done += 1
        assert_same(self.sides, command, act)
        assert_same(self.sides, f"{command}, loaded", Side.seen)
        self.seen = self.sides[0].seen()
        self.left = self.left and self.known()

    @property
    def phase(self) -> Phase | None:
        """What the task is doing; None if it is not known."""
        return None if self.seen["task"] is None else Phase(self.seen["task"]["phase"])

    @property
    def room(self) -> bool:
        """Whether there are steps left to commit."""
        return self.seen["task"] is None or self.seen["task"]["seq"] < len(STEPS) - 2

    def known(self) -> bool:
        """Whether the task is on the board. Commands for a task that is not are rare."""
        return self.phase is not None

    def mostly(self, phase: Phase) -> bool:
        """Whether the task is in this phase, or it is time for commands that do not fit."""
        return not self.left and (self.phase is phase or self.done % 8 == 0)

    # Board

    @rule(count=st.sampled_from([1, 1, 3, 7]), events=EVENTS)
    @precondition(lambda self: not self.known() or self.done % 8 == 0)
    def create(self, count: int, events: list[Any]) -> None:
        self.do(f"create {count}", lambda side: side.create(count, events))

    @rule(back=BACK, choice=CHOICES, events=EVENTS)
    @precondition(lambda self: not self.left)
    def choose(self, back: int, choice: Decision, events: list[Any]) -> None:
        self.do(f"choose {back} {choice}", lambda side: side.choose(back, choice, events))

    @rule(back=BACK, ahead=NEAR, events=EVENTS)
    @precondition(lambda self: self.room and not self.left)
    def commit(self, back: int, ahead: int, events: list[Any]) -> None:
        self.do(f"commit {back} {ahead}", lambda side: side.commit(back, ahead, events))

    @rule(back=BACK, ahead=NEAR, choice=CHOICES, events=EVENTS)
    @precondition(lambda self: self.room and not self.left)
    def commit_and_choose(self, back: int, ahead: int, choice: Decision, events: list[Any]) -> None:
        self.do(
            f"commit_and_choose {back} {ahead} {choice}",
            lambda side: side.commit_and_choose(back, ahead, choice, events),
        )

    @rule(back=BACK)
    @precondition(lambda self: self.seen["chunks"] or self.done % 8 == 0)
    def begin_again(self, back: int) -> None:
        self.do(f"begin_again {back}", lambda side: side.begin_again(back))

    @rule()
    @precondition(lambda self: (self.phase is Phase.END or self.done % 8 == 0) and not self.left)
    def leave(self) -> None:
        """Nothing is done with an ended task after that, except by those who do not know of it yet."""
        ended = self.phase is Phase.END
        self.do("leave", lambda side: side.leave(KEPT_FOR))
        self.left = ended

    @rule()
    @precondition(lambda self: self.known() and self.done % 30 == 29)
    def wipe(self) -> None:
        self.do("wipe", Side.wipe)

    @rule(seconds=MOVES)
    def pass_time(self, seconds: float) -> None:
        self.do(f"pass {seconds} s", lambda side: side.pass_time(seconds))

    # Turns

    @rule(at=AT, attempt=NEAR, token=TOKENS, tail=st.sampled_from([1, 3, 10]))
    @precondition(lambda self: self.mostly(Phase.TURN))
    def claim(self, at: tuple[int, int], attempt: int, token: str, tail: int) -> None:
        self.do(f"claim {at} {attempt} {token}", lambda side: side.claim(*at, attempt, token, tail))

    @rule(back=BACK, token=TOKENS, number=st.integers(1, 4), used=USED)
    @precondition(lambda self: self.mostly(Phase.TURN))
    def emit(self, back: int, token: str, number: int, used: TokenUsage) -> None:
        self.do(f"emit {back} {token} {number}", lambda side: side.emit(back, token, number, used))

    @rule(back=BACK, token=TOKENS)
    @precondition(lambda self: self.mostly(Phase.TURN))
    def renew(self, back: int, token: str) -> None:
        self.do(f"renew {back} {token}", lambda side: side.renew(back, token))

    @rule(back=BACK)
    @precondition(lambda self: self.done % 3 == 0)
    def cut(self, back: int) -> None:
        self.do(f"cut {back}", lambda side: side.cut(back))

    @rule(back=BACK, token=TOKENS, seconds=st.sampled_from([-1.0, 30.0, 100.0]), refused=st.booleans())
    @precondition(lambda self: self.mostly(Phase.TURN))
    def defer(self, back: int, token: str, seconds: float, refused: bool) -> None:
        self.do(f"defer {back} {token} {seconds}", lambda side: side.defer(back, token, seconds, refused))

    @rule(back=BACK, token=st.sampled_from(["", "", "me", "you"]))
    @precondition(lambda self: not self.left)
    def restart(self, back: int, token: str) -> None:
        self.do(f"restart {back} {token}", lambda side: side.restart(back, token))

    @rule(back=BACK, again=st.booleans())
    @precondition(lambda self: self.done % 3 == 0)
    def ring(self, back: int, again: bool) -> None:
        self.do(f"ring {back} {again}", lambda side: side.ring(back, again))

    # Calls

    @rule(at=AT, call_id=CALL_IDS, token=TOKENS)
    @precondition(lambda self: self.mostly(Phase.TOOLS))
    def claim_call(self, at: tuple[int, int], call_id: str, token: str) -> None:
        self.do(
            f"claim_call {at} {call_id} {token}",
            lambda side: side.claim_call(at, call_id, token),
        )

    @rule(at=AT, call_id=CALL_IDS, token=TOKENS)
    @precondition(lambda self: self.mostly(Phase.TOOLS))
    def renew_call(self, at: tuple[int, int], call_id: str, token: str) -> None:
        self.do(
            f"renew_call {at} {call_id} {token}",
            lambda side: side.renew_call(at, call_id, token),
        )

    @rule(at=AT, call_id=CALL_IDS, token=st.sampled_from(["me", "you", None]), outcome=OUTCOMES)
    @precondition(lambda self: self.mostly(Phase.TOOLS))
    def record(self, at: tuple[int, int], call_id: str, token: str | None, outcome: ToolOutcome) -> None:
        self.do(
            f"record {at} {call_id} {token}",
            lambda side: side.record(at, call_id, token, outcome),
        )

    @rule(at=AT, call_id=CALL_IDS, token=TOKENS)
    @precondition(lambda self: self.mostly(Phase.TOOLS))
    def give_back(self, at: tuple[int, int], call_id: str, token: str) -> None:
        self.do(
            f"give_back {at} {call_id} {token}",
            lambda side: side.give_back(at, call_id, token),
        )

    @rule(at=AT, call_id=CALL_IDS, lost=st.booleans())
    @precondition(lambda self: self.mostly(Phase.TOOLS))
    def restart_call(self, at: tuple[int, int], call_id: str, lost: bool) -> None:
        self.do(
            f"restart_call {at} {call_id} {lost}",
            lambda side: side.restart_call(at, call_id, lost),
        )

    # Inbox, Logs

    @rule(items=st.lists(ITEMS, max_size=2), ends=ENDS, back=st.one_of(st.none(), BACK))
    def knock(self, items: list[str], ends: str, back: int | None) -> None:
        self.do(f"knock {items} {ends} {back}", lambda side: side.knock(items, ends, back))

    @rule(back=BACK)
    @precondition(lambda self: self.done % 3 == 0)
    def clear_cancellation(self, back: int) -> None:
        self.do(f"clear_cancellation {back}", lambda side: side.clear_cancellation(back))

    @rule(item=ITEMS)
    @precondition(lambda self: self.done % 3 == 0)
    def forget(self, item: str) -> None:
        self.do(f"forget {item}", lambda side: side.forget(item))

    @rule(after=st.integers(0, 12))
    @precondition(lambda self: self.done % 3 == 0)
    def read_logs(self, after: int) -> None:
        self.do(f"read_logs {after}", lambda side: side.read_logs(after))


@pytest.mark.redis
def test_a_task_in_memory_and_on_redis_is_the_same(valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for board in (memory_board, redis_board):
        monkeypatch.setattr(board, "MAX_TAIL_STEPS", 5)
    found = settings(MACHINE, max_examples=50, stateful_step_count=60)
    with connected(valkey.url) as clients:
        machine: Any = partial(BoardMachine, clients)
        run_state_machine_as_test(machine, settings=found)
