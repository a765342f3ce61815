"""Hand-over: a worker that ends dies at any of its calls, also of work that is switched off."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from roboco.domain.status import TaskStatus
from roboco.engine.held_work import SHUTDOWN_REASON
from roboco.errors import TransientError
from roboco.ports.model import Request
from tests.support.memory_ports.journeys import assert_whole, member
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.watch import Crash, PortCall, make_call
from tests.support.memory_ports.world import TASK, World, team_of, world_parts
from tests.support.selection import PARTS, in_parts

TEAM = team_of(
    agents=[member("one", tools=["add", "sub"])],
    tools=[{"name": name, "function": f"shop.sums:{name}", "effect": "pure"} for name in ("add", "sub")],
)
TARGETS = ("queue:agents", "tool:add")


class InterruptedCallError(Exception):
    """The exception with which a pool interrupts a call."""


@dataclass
class Ending:
    """A watch: the worker is shut down at the nth call of an operation, and dies at its call of this number after that.

    `dies_at` 0 is no death. The work that fails of its interruption raises an exception.
    """

    world: World
    operation: str
    nth: int
    fails: bool
    dies_at: int
    after: bool
    then: Callable[[], None]
    seen: int = 0
    calls: int = 0

    def __call__(self, name: str, call: PortCall) -> Any:
        """Make the call, or raise Crash from the death on."""
        self.seen += self.calls == 0 and name == self.operation
        if self.calls == 0 and self.seen == self.nth:
            return self._shut_down(call)
        if self.calls == 0:
            return call()
        self.calls += 1
        if self.dies_at and self.calls > self.dies_at:
            raise Crash
        answer = call() if self.after or self.calls != self.dies_at else None
        if self.calls == self.dies_at:
            raise Crash
        return answer

    def _shut_down(self, call: PortCall) -> Any:
        self.world.watch = make_call
        self.then()
        self.world.watch = self
        self.calls = 1
        for item in list(self.world.engine.process.held_work._held):
            item.reason = SHUTDOWN_REASON
            item.interrupt()
        if self.fails:
            raise InterruptedCallError
        return call()


MOMENTS = {
    "before the first text": ("model.stream", 1, False),
    "after the first text": ("leases.emit", 2, False),
    "in a tool": ("toolbox.run", 1, True),
    "as a tool ends": ("toolbox.run", 1, False),
    "as the outcome is recorded": ("leases.record_outcome", 1, False),
    "in the second tool": ("toolbox.run", 2, True),
}


def new_world() -> World:
    """Return a world with a submitted task."""

    def answer(request: Request) -> ScriptedReply:
        answered = any(message.get("role") == "tool" for message in request.messages)
        return says("all is done") if answered else says("one two", ("add", {}), ("sub", {}))

    tools = {"add": lambda args, context: 3, "sub": lambda args, context: 1}
    world = World(world_parts(answer, tools))
    world.engine.process.switches.repair()
    world.submit(TEAM, at_once=True)
    return world


def run(moment: str, switched: bool, dies_at: int, after: bool = False) -> int:
    """Run the task to its end, and check it. Return the number of calls from the shutdown to the end of the worker."""
    world, where = new_world(), f"{moment}, switched {switched}, {dies_at} {after}"

    def then() -> None:
        for target in TARGETS if switched else ():
            world.engine.process.switches.switch_off(target, "it is broken", True, None, world.engine.now())

    ending = Ending(world, *MOMENTS[moment], dies_at, after, then)
    world.watch = ending
    while world.dispatcher.queue and not ending.calls:
        world.deliver(world.dispatcher.queue.popleft())
    world.watch = make_call
    assert ending.calls, where
    if switched:
        world.settle_for(3)
        for target in TARGETS:
            world.engine.process.switches.switch_on(target)
        world.clock.move(30)
    world.settle_for(2)
    world.settle()
    expected = ["user", "one", "tool_executor", "one"]
    assert [step.agent_name for step in world.history()] == expected, where
    assert world.summary().status is TaskStatus.COMPLETED, where
    task = world.server.held.tasks[TASK]
    assert "is switched off" not in task.reason, where
    assert len(world.given.toolbox.runs) <= 3, where
    assert not [error for error in world.failures if not isinstance(error, TransientError)], where
    assert_whole(world, where)
    return ending.calls


@in_parts
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("switched", [False, True], ids=["", "switched off"])
def test_a_task_completes_whenever_the_worker_that_hands_over_dies(moment: str, switched: bool, part: int) -> None:
    calls = run(moment, switched, 0)
    for dies_at in range(1 + part, calls + 1, PARTS):
        for after in (False, True):
            run(moment, switched, dies_at, after)
