"""The life of a task: the diagram in the guide to tasks shows the changes of status that happen, and no others."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from roboco.domain.history.tool_outcome import ToolOutcome, successful_outcome, unknown_outcome
from roboco.domain.status import TaskStatus
from roboco.ports.model import Request
from roboco.ports.tools import ToolContext
from tests.faults.enumerated import ALL
from tests.support.memory_ports.journeys import MANUAL, SEQUENTIAL, Journey, member
from tests.support.memory_ports.model import Said, said
from tests.support.memory_ports.world import TASK, World, given, team_of
from tests.unit.engine.intake.test_fork import FORK, forked
from tests.unit.engine.test_goals import ANSWER
from tests.unit.engine.test_goals import TEAM as ASKED
from tests.unit.engine.test_outside_calls import ASK, FUNCTIONS
from tests.unit.engine.test_outside_calls import TEAM as CLIENTS
from tests.unit.engine.test_outside_calls import task as asking

GUIDE = Path(__file__).parents[3] / "roboco" / "docs" / "tasks.md"
EDGE = re.compile(r"^\s+(\S+) --> (\S+?)(?:: .*)?$", re.MULTILINE)
END = "[*]"


class Observer:
    """Notes the changes of status of worlds."""

    def __init__(self) -> None:
        self.changes: set[tuple[str, str]] = set()

    def follow(self, act: Callable[[World], object], world: World) -> None:
        """Do this to the world, and settle it."""
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
            self.changes.add((str(before), END))

    def _status(self, world: World) -> str | None:
        task = world.server.held.tasks.get(TASK)
        return None if task is None else task.status.value


def travelled(observer: Observer, journey: Journey) -> None:
    """Observe a journey."""
    world = journey.world()
    observer.follow(lambda world: world.submit(journey.team, **journey.options), world)
    for act in journey.acts:
        observer.follow(act, world)


def controlled(observer: Observer) -> None:
    """Observe what is done to tasks that wait."""
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
    observer.follow(paused_at_once, world)
    for number in range(4):
        observer.follow(partial(World.step, item_id=f"step{number}"), world)
    observer.follow(lambda world: world.resume(), world)
    world = lost_beside_client()
    observer.follow(lambda world: world.submit(LOSING, client_tools=[ASK]), world)
    observer.follow(lambda world: world.answer(successful_outcome(world.history()[1].calls[0], 1)), world)


LOSING = team_of(
    agents=[member("lead", tools=["pay"])],
    tools=[{"name": "pay", "function": "shop.sums:pay", "on_unknown": "ask"}],
)


def lost_beside_client() -> World:
    """A world in which nobody knows what came of a call, beside one of the client's."""

    def script(request: Request) -> Said:
        return said("", ("client_ask", {"q": 1}), ("pay", {"amount": 1}))

    def lost(args: dict[str, Any], context: ToolContext) -> ToolOutcome:
        return unknown_outcome(context.call_id, "the bank is silent", "ask")

    return World(given(script, {"pay": lost}))


def paused_at_once(world: World) -> None:
    """A task that is paused before it began."""
    world.submit(SEQUENTIAL.team)
    world.pause()


def asking_client() -> World:
    """A world whose agent calls a client tool."""
    return World(given(lambda request: said("", ("client_ask", {"q": 1})), FUNCTIONS))


def test_the_diagram_shows_what_happens() -> None:
    observer = Observer()
    for journey in ALL.values():
        travelled(observer, journey)
    controlled(observer)
    world = SEQUENTIAL.world()
    observer.follow(paused_at_once, world)
    world = asking_client()
    observer.follow(lambda world: world.submit(CLIENTS, client_tools=[ASK]), world)
    world = World(given(lambda request: said("no")))
    observer.follow(lambda world: world.submit(ASKED, goals=[ANSWER]), world)
    drawn = set(EDGE.findall(GUIDE.read_text()))
    forks = SEQUENTIAL.run(SEQUENTIAL.world())
    forked(forks, 2)
    begins = {(END, "queued"), (END, forks.status(FORK).value)}
    assert observer.changes | begins == drawn
    assert {status for edge in drawn for status in edge} - {END} == {status.value for status in TaskStatus}
