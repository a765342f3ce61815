"""The life of a task: the diagram in the guide to tasks shows exactly the changes of status that occur."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from roboco.domain.history.part import ToolOutcome, successful_outcome, unknown_outcome
from roboco.domain.status import TaskStatus
from roboco.ports.model import Request
from roboco.ports.tools import ToolContext
from tests.faults.enumerated import ALL
from tests.support.memory_ports.journeys import MANUAL, SEQUENTIAL, Journey, member
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.world import TASK, World, team_of, world_parts
from tests.unit.engine.accept.test_fork import FORK, fork_task
from tests.unit.engine.test_external_calls import ASK, FUNCTIONS
from tests.unit.engine.test_external_calls import TEAM as CLIENTS
from tests.unit.engine.test_external_calls import world_with_calls as asking
from tests.unit.engine.test_goals import ANSWER_GOAL
from tests.unit.engine.test_goals import TEAM as ASKED

GUIDE = Path(__file__).parents[3] / "roboco" / "docs" / "tasks.md"
EDGE = re.compile(r"^\s+(\S+) --> (\S+?)(?:: .*)?$", re.MULTILINE)
NO_STATUS = "[*]"


class Observer:
    """A recorder of the changes of status of worlds."""

    def __init__(self) -> None:
        self.changes: set[tuple[str, str]] = set()

    def follow(self, act: Callable[[World], object], world: World) -> None:
        """Call `act` with the world, settle it, and record the changes."""
        before = self._status(world)

        def watch(name: str, call: Any) -> Any:
            nonlocal before
            answer = call()
            now = self._status(world)
            if before is not None and now is not None and now != before:
                self.changes.add((before, now))
            before = now
            return answer

        world.watch = watch
        act(world)
        world.settle()
        if TaskStatus(str(before)).ended:
            self.changes.add((str(before), NO_STATUS))

    def _status(self, world: World) -> str | None:
        task = world.server.held.tasks.get(TASK)
        return None if task is None else task.status.value


def observe_journey(observer: Observer, journey: Journey) -> None:
    """Observe a journey."""
    world = journey.world()
    observer.follow(lambda world: world.submit(journey.team, **journey.options), world)
    for act in journey.acts:
        observer.follow(act, world)


def observe_controls(observer: Observer) -> None:
    """Observe controls of tasks that wait."""
    world = MANUAL.world()
    observer.follow(lambda world: world.submit(MANUAL.team), world)
    observer.follow(lambda world: world.pause(), world)
    observer.follow(lambda world: world.resume(), world)
    world = asking(("client_ask", {"q": 1}), ("pay", {"amount": 5}))
    asked, paid = world.history()[1].calls
    observer.follow(lambda world: world.decide_approval(paid.id, False), world)
    observer.follow(lambda world: world.answer(successful_outcome(asked, 1)), world)
    world = asking(("pay", {"amount": 5}))
    observer.follow(lambda world: world.pause(), world)
    observer.follow(lambda world: world.decide_approval(world.history()[1].calls[0].id, True), world)
    world = SEQUENTIAL.world()
    observer.follow(submit_and_pause, world)
    for number in range(4):
        observer.follow(partial(World.step, item_id=f"step{number}"), world)
    observer.follow(lambda world: world.resume(), world)
    world = world_with_lost_call()
    observer.follow(lambda world: world.submit(LOSING_TEAM, client_tools=[ASK]), world)
    observer.follow(lambda world: world.answer(successful_outcome(world.history()[1].calls[0], 1)), world)


LOSING_TEAM = team_of(
    agents=[member("lead", tools=["pay"])],
    tools=[{"name": "pay", "function": "shop.sums:pay", "on_unknown": "ask"}],
)


def world_with_lost_call() -> World:
    """Return a world with a call of unknown outcome and an open call of a client tool."""

    def script(request: Request) -> ScriptedReply:
        return says("", ("client_ask", {"q": 1}), ("pay", {"amount": 1}))

    def lost(args: dict[str, Any], context: ToolContext) -> ToolOutcome:
        return unknown_outcome(context.call_id, "the bank is silent", "ask")

    return World(world_parts(script, {"pay": lost}))


def submit_and_pause(world: World) -> None:
    """Submit a task and pause it before it starts."""
    world.submit(SEQUENTIAL.team)
    world.pause()


def world_with_client_call() -> World:
    """Return a world whose agent calls a client tool."""
    return World(world_parts(lambda request: says("", ("client_ask", {"q": 1})), FUNCTIONS))


def test_the_diagram_shows_the_changes_of_status() -> None:
    observer = Observer()
    for journey in ALL.values():
        observe_journey(observer, journey)
    observe_controls(observer)
    world = SEQUENTIAL.world()
    observer.follow(submit_and_pause, world)
    world = world_with_client_call()
    observer.follow(lambda world: world.submit(CLIENTS, client_tools=[ASK]), world)
    world = World(world_parts(lambda request: says("no")))
    observer.follow(lambda world: world.submit(ASKED, goals=[ANSWER_GOAL]), world)
    drawn = set(EDGE.findall(GUIDE.read_text()))
    forks = SEQUENTIAL.run(SEQUENTIAL.world())
    fork_task(forks, 2)
    initial = {(NO_STATUS, "queued"), (NO_STATUS, forks.status(FORK).value)}
    assert observer.changes | initial == drawn
    assert {status for edge in drawn for status in edge} - {NO_STATUS} == {status.value for status in TaskStatus}
