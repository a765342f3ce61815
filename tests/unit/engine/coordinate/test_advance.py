"""advance: one decision after the other, each recorded before it is dispatched."""

from typing import Any

import pytest

from roboco.domain.decision.action import Route
from roboco.domain.decision.router import Router
from roboco.domain.history.state import History
from roboco.domain.limits import Limits
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.engine.coordinate.advance import advance
from roboco.ports.snapshot import COORDINATOR_TAIL_LENGTH
from tests.support.memory_ports.journeys import SEQUENTIAL, member
from tests.support.memory_ports.model import says
from tests.support.memory_ports.watch import PortCall, make_call
from tests.support.memory_ports.world import TASK, World, team_of, world_parts


def test_advance_of_an_unknown_task_does_nothing() -> None:
    world = SEQUENTIAL.world()
    world.server.held.schedule["nothing"] = 0.0
    advance(world.engine, "nothing")
    assert not world.server.held.schedule
    assert not world.files.held


def test_a_slow_pass_keeps_the_check_of_a_task_that_another_one_continues() -> None:
    """The other one begins a turn whose message is lost. Without a check, the turn would wait for an hour."""
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    world.pause()
    world.settle()
    assert world.status() is TaskStatus.PAUSED

    def resume_meanwhile(name: str, call: PortCall) -> Any:
        if name == "schedule.set":
            world.watch = make_call
            world.resume()
            advance(world.engine, TASK)
            world.dispatcher.queue.clear()
        return call()

    world.watch = resume_meanwhile
    advance(world.engine, TASK)
    assert world.status() is TaskStatus.RUNNING
    assert world.server.held.schedule[TASK] <= world.clock.now() + world.given.policy.redelivery_delay


CUSTOM_TEAM = team_of(
    agents=[member("first"), member("second")], collaboration_model={"type": "custom", "router": "shop.routers:mine"}
)


def test_a_custom_router_reads_the_whole_history() -> None:
    """The tail of a long task does not hold its first step; the router reads it when it needs it."""
    seen: list[tuple[int, str, int]] = []

    def looks_back(team: Team, history: History) -> Route:
        seen.append((len(history.steps), history.steps[0].text, history.tail[0].seq))
        return Route("END" if len(history.steps) > COORDINATOR_TAIL_LENGTH + 2 else "first", "back", "next", "")

    world = World(world_parts(lambda request: says("text"), routers={"shop.routers:mine": looks_back}))
    world.submit(CUSTOM_TEAM.model_copy(update={"limits": Limits(max_steps=1000)}), prompt="the beginning")
    world.settle()
    lengths, firsts, tails = zip(*seen, strict=True)
    assert lengths[-1] == COORDINATOR_TAIL_LENGTH + 3 == len(world.history())
    assert set(firsts) == {"the beginning"}
    assert tails[-1] > 0


def raises_an_error(team: Team, history: History) -> Route:
    raise ZeroDivisionError("division by zero")


@pytest.mark.parametrize(
    ("routers", "reason"),
    [
        ({}, "shop.routers:mine"),
        ({"shop.routers:mine": raises_an_error}, "division by zero"),
    ],
    ids=["cannot be loaded", "raises"],
)
def test_a_router_that_cannot_decide_ends_the_task_as_failed(routers: dict[str, Router], reason: str) -> None:
    world = World(world_parts(lambda request: says("text"), routers=routers))
    world.submit(CUSTOM_TEAM)
    world.settle()
    assert world.summary().status is TaskStatus.FAILED
    assert reason in world.summary().reason
