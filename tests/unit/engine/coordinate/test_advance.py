"""advance: one decision after the other, each recorded before it is dispatched."""

from typing import Any

import pytest

from roboco.domain.decision.route import Route
from roboco.domain.decision.router import Router
from roboco.domain.history.state import COORDINATOR_TAIL_LENGTH, History
from roboco.domain.limits import Limits
from roboco.domain.paths import open_marker_path
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.engine.coordinate.advance import advance
from tests.support.memory_ports.dispatcher import TurnMessage
from tests.support.memory_ports.journeys import GRAPH, MANUAL, SEQUENTIAL, TOOLS, member
from tests.support.memory_ports.model import says
from tests.support.memory_ports.world import TASK, World, team_of, world_parts


def events_of(world: World, *kinds: str) -> list[dict[str, Any]]:
    return [record for record in world.published() if record["type"] in kinds]


def test_the_decision_is_published_before_the_turn_starts() -> None:
    world = GRAPH.world()
    world.submit(GRAPH.team)
    advance(world.engine, TASK)
    [turn] = [message for message in world.dispatcher.queue if isinstance(message, TurnMessage)]
    assert (turn.agent, turn.assignment.seq, turn.assignment.attempt) == ("writer", 1, 1)
    assert world.status() is TaskStatus.RUNNING
    status, selected = events_of(world, "event_status", "event_agent_select")
    assert status["status"] == "running"
    assert selected["agent_name"] == "writer"
    assert selected["routing"]["rule"] == "initial"
    world.settle()
    assert selected["step_id"] == world.history()[1].step_id
    assert world.history()[1].metadata["routing"] == selected["routing"]


def test_a_handoff_is_published_with_its_reason() -> None:
    world = TOOLS.run(TOOLS.world())
    [event] = events_of(world, "event_agent_handoff")
    assert (event["from_agent"], event["to_agent"], event["reason"]) == ("lead", "closer", "done")
    closer = world.history()[-1]
    assert closer.metadata["routing"]["rule"] == "handoff"
    assert closer.metadata["routing"]["candidates"] == ["closer"]


def test_a_waiting_task_occupies_no_worker() -> None:
    world = MANUAL.world()
    world.submit(MANUAL.team)
    world.settle()
    assert events_of(world, "event_status")[-1]["status"] == "user_turn"
    assert world.summary().status is TaskStatus.USER_TURN
    assert world.summary().steps == 2
    sent = len(world.dispatcher.sent)
    for _ in range(50):
        world.clock.move(10)
        world.sweep()
    assert len(world.dispatcher.sent) == sent
    assert open_marker_path(TASK) in world.files.held


def test_an_ended_task_leaves_redis_after_the_retention_and_stays_ended() -> None:
    world = SEQUENTIAL.run(SEQUENTIAL.world())
    history, files = world.history(), dict(world.files.held)
    world.clock.move(world.given.policy.retention + 1)
    advance(world.engine, TASK)
    world.sweep()
    world.drain()
    assert TASK not in world.server.held.tasks
    assert (world.history(), world.files.held) == (history, files)


def test_advance_of_an_unknown_task_does_nothing() -> None:
    world = SEQUENTIAL.world()
    world.server.held.schedule["nothing"] = 0.0
    advance(world.engine, "nothing")
    assert not world.server.held.schedule
    assert not world.files.held


def reversed_order(team: Team, history: History) -> Route:
    names = [agent.name for agent in reversed(team.agents)]
    turns = sum(history.state.turns.values())
    return Route("END" if turns == len(names) else names[turns], "backwards", "next", "because", tuple(names))


CUSTOM_TEAM = team_of(
    agents=[member("first"), member("second")], collaboration_model={"type": "custom", "router": "shop.routers:mine"}
)


def test_a_custom_router_decides() -> None:
    world = World(world_parts(lambda request: says("text"), routers={"shop.routers:mine": reversed_order}))
    world.submit(CUSTOM_TEAM)
    world.settle()
    assert [step.agent_name for step in world.history()] == ["user", "second", "first"]
    assert (
        world.history()[1].metadata["routing"]
        == Route("second", "backwards", "next", "because", ("second", "first")).record()
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


def chooses_an_unknown_agent(team: Team, history: History) -> Route:
    return Route("absent", "mine", "stray", "why not")


@pytest.mark.parametrize(
    ("routers", "reason"),
    [
        ({}, "shop.routers:mine"),
        ({"shop.routers:mine": raises_an_error}, "division by zero"),
        ({"shop.routers:mine": chooses_an_unknown_agent}, "chose 'absent', possible are first, second, END and USER"),
    ],
    ids=["cannot be loaded", "raises", "names no agent"],
)
def test_a_router_that_cannot_decide_ends_the_task_as_failed(routers: dict[str, Router], reason: str) -> None:
    world = World(world_parts(lambda request: says("text"), routers=routers))
    world.submit(CUSTOM_TEAM)
    world.settle()
    assert world.summary().status is TaskStatus.FAILED
    assert reason in world.summary().reason
