"""Faults at every port call of a run with an irreversible tool: each call appends at most one line."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from roboco.domain.decision.tool_answers import needs_resolution
from roboco.domain.history.part import ToolCall, ToolOutcome, ToolResult, not_executed_outcome, successful_outcome
from roboco.domain.status import TaskStatus
from roboco.engine.accept.answer import CallResolution, resolve_unknown
from roboco.errors import TransientError
from roboco.ports.model import Request
from roboco.ports.tools import ToolContext
from tests.faults.enumerated import INJECTIONS, FaultedCall, places
from tests.support.memory_ports.journeys import assert_whole, member, own_turns
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.watch import PortCall
from tests.support.memory_ports.world import TASK, World, team_of, world_parts
from tests.support.selection import in_parts

CALLS = 2


class Payments:
    """A run with two payments, each a line of a file. `resolve` is the way in which unknown outcomes are resolved."""

    def __init__(self, file: Path, resolve: str) -> None:
        self.file = file
        self.file.write_text("")
        self._ask = resolve == "ask"
        functions: dict[str, Any] = {"pay": self._pay, "add": lambda args, context: 3}
        if resolve == "verify":
            functions["verify_pay"] = self._verify
        self.in_doubt = False
        self.void_keys: set[str] = set()
        self.calls: list[str] = []
        self.world = World(world_parts(self._script, functions))
        self._team = team_of(
            agents=[member("clerk", tools=["pay", "add"])],
            tools=[
                {"name": "pay", "function": "shop.bank:pay", "on_unknown": "ask" if self._ask else "tell"},
                {"name": "add", "function": "shop.sums:add", "effect": "pure"},
            ],
        )

    def lines(self) -> Counter[str]:
        """Return how often each call had its effect."""
        return Counter(self.file.read_text().splitlines())

    def run(self, kind: str = "", at: int = 0) -> bool:
        """Run to the end with a fault at a port call. Return True if the run has that many port calls."""

        def watch(name: str, call: PortCall) -> Any:
            self.calls.append(name)
            if len(self.calls) != at:
                return call()
            self.in_doubt = self._has_open_intent()
            try:
                return INJECTIONS[kind](FaultedCall(self.world, name, call))
            finally:
                self.in_doubt = self.in_doubt or self._has_open_intent()

        self.world.watch = watch
        self.world.submit(self._team)
        self.world.settle()
        while self.world.status() is TaskStatus.APPROVAL:
            self._resolve()
            self.world.settle()
        return len(self.calls) >= at

    def _has_open_intent(self) -> bool:
        """Return True if the workspace holds an intent without an outcome."""
        held = self.world.files.held
        started = {path.rpartition("/")[2].removesuffix(".json") for path in held if "/effects/" in path}
        return any(f"{name}.outcome" not in started for name in started if not name.endswith(".outcome"))

    def _script(self, request: Request) -> ScriptedReply:
        if own_turns(request):
            return says("done")
        return says("paying", *[("pay", {"to": number}) for number in range(CALLS)], ("add", {}))

    def _pay(self, args: dict[str, Any], context: ToolContext) -> str:
        if context.idempotency_key in self.void_keys:
            raise ValueError("the key is void")
        with self.file.open("a") as file:
            file.write(f"{context.call_id}\n")
        return "paid"

    def _verify(self, args: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Return the outcome: paid if the call has a line. Else make the key void, so that it never gets one."""
        call = ToolCall(id=context.call_id, tool_name="pay", args=args)
        if context.call_id in self.lines():
            return successful_outcome(call, "paid")
        self.void_keys.add(context.idempotency_key)
        return not_executed_outcome(call.id)

    def _resolve(self) -> None:
        task = self.world.server.held.tasks[TASK]
        for call_id, call in list(task.calls.items()):
            outcome = ToolOutcome.model_validate_json(call.outcome) if call.outcome else None
            if needs_resolution(outcome):
                happened = call_id in self.lines()
                if not happened:
                    self.void_keys.add(f"{TASK}/{call_id}")
                resolution = CallResolution(happened, "paid" if happened else None)
                resolve_unknown(self.world.engine, TASK, call_id, resolution, f"say-{call_id}")

    def results(self) -> list[ToolResult]:
        """Return the results of the payments."""
        return list(self.world.history()[2].results)[:CALLS]


def check_payments(paying: Payments, resolve: str) -> None:
    world, lines = paying.world, paying.lines()
    assert not [error for error in world.failures if not isinstance(error, TransientError)]
    assert [step.agent_name for step in world.history()] == ["user", "clerk", "tool_executor", "clerk"]
    assert world.summary().status is TaskStatus.COMPLETED
    assert_whole(world, "")
    for result in paying.results():
        assert lines[result.tool_call_id] <= 1, "an effect happened twice"
        if not result.is_error:
            assert (result.result, lines[result.tool_call_id]) == ("paid", 1)
            continue
        assert paying.in_doubt, f"no fault between intent and result, but: {result.error}"
        if resolve == "tell":
            assert "outcome unknown" in str(result.error)
        else:
            assert lines[result.tool_call_id] == 0, "the call had its effect, and its result denies it"


@in_parts
@pytest.mark.parametrize("resolve", ["tell", "verify", "ask"])
@pytest.mark.parametrize("kind", sorted(INJECTIONS))
def test_a_fault_at_any_port_call_repeats_no_payment(tmp_path: Path, kind: str, resolve: str, part: int) -> None:
    came, failures = True, []
    for at in places(kind, part):
        paying = Payments(tmp_path / "lines.txt", resolve)
        try:
            came = paying.run(kind, at)
            check_payments(paying, resolve)
        except AssertionError as error:
            failures.append(f"{kind}@{at}, {resolve}: {error}".splitlines()[0])
        if not came:
            break
    assert not failures, "\n".join(failures)
    assert at > 40


@pytest.mark.parametrize("kind", ["dies", "dies-after", "late", "wiped-and-dies"])
def test_the_outcome_of_a_payment_in_doubt_is_unknown(tmp_path: Path, kind: str) -> None:
    plain, paying = Payments(tmp_path / "plain.txt", "tell"), Payments(tmp_path / "lines.txt", "tell")
    plain.run()
    paying.run(kind, plain.calls.index("toolbox.run") + 1)
    check_payments(paying, "tell")
    assert [result.is_error for result in paying.results()].count(True) == 1
