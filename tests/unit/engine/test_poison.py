"""What ends its worker each time: the task fails after a bounded number of attempts, and a dead letter says so."""

from typing import Any

import pytest
from celery import Celery

from roboco.client.dead_letters import delete, requeue
from roboco.domain.decision.route import Route
from roboco.domain.history.state import History
from roboco.domain.status import TaskStatus
from roboco.domain.team.collaboration import END
from roboco.domain.team.team import Team
from roboco.errors import TransientError, UsageError
from tests.support.memory_ports.journeys import CUSTOM, GRAPH, TOOLS, Journey
from tests.support.memory_ports.watch import Crash, PortCall, make_call
from tests.support.memory_ports.world import TASK, World

ATTEMPTS = 3


def letters(world: World) -> list[tuple[str | None, int]]:
    return [(letter.work, letter.attempts) for letter in world.engine.dead_letters.entries()]


def deadly(where: str) -> World:
    """A world whose graph team's every process dies at this port call."""

    def watch(name: str, call: PortCall) -> Any:
        if name == where:
            raise Crash
        return call()

    world = GRAPH.world()
    world.submit(GRAPH.team)
    world.watch = watch
    return world


def test_a_turn_leaves_one_letter() -> None:
    world = deadly("model.stream")
    world.settle()
    assert world.summary().status is TaskStatus.FAILED
    [letter] = world.engine.dead_letters.entries()
    assert (letter.name, letter.task_id, letter.detail, letter.attempts) == (
        "roboco.turn",
        "task_1",
        "writer, step 1",
        ATTEMPTS,
    )
    assert letter.reason == world.summary().reason


def test_a_tool_call_leaves_one_letter_and_the_agent_is_told(caplog: pytest.LogCaptureFixture) -> None:
    world = TOOLS.world()

    def watch(name: str, call: PortCall) -> Any:
        if name == "toolbox.run":
            raise Crash
        return call()

    world.submit(TOOLS.team)
    world.watch = watch
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    assert letters(world) == [("tool", ATTEMPTS)] * 3
    told = [record.getMessage() for record in caplog.records if "a dead letter is stored" in record.getMessage()]
    assert len(told) == 3
    assert told[0].startswith(f"task {TASK}: tool 'add' was lost {ATTEMPTS} times, with the worker that ran it")


def test_a_task_whose_every_look_ends_the_sweeper_is_given_up() -> None:
    world = deadly("dispatcher.turn")
    world.settle()
    assert world.summary().status is TaskStatus.FAILED
    assert f"{ATTEMPTS} sweepers were lost" in world.summary().reason
    assert letters(world) == [("advance", ATTEMPTS)]


def test_looks_that_merely_fail_are_not_counted() -> None:
    world = GRAPH.world()
    world.submit(GRAPH.team)

    def watch(name: str, call: PortCall) -> Any:
        if name == "task_store.record_decision":
            raise TransientError("refused")
        return call()

    world.watch = watch
    for _ in range(50):
        world.drain()
        world.clock.move(60)
        world.sweep()
    assert world.status() is TaskStatus.QUEUED
    world.watch = make_call
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    assert not letters(world)


def ending(router: Any) -> Journey:
    """The custom team with another router."""
    return Journey(CUSTOM.team, CUSTOM.script, routers={"shop.routers:by_turns": router})


def test_a_router_that_ends_its_worker_fails_the_task() -> None:
    asked: list[int] = []

    def router(team: Team, history: History) -> Route:
        asked.append(len(history.tail))
        raise Crash

    world = ending(router).world()
    world.submit(CUSTOM.team)
    world.settle()
    assert world.summary().status is TaskStatus.FAILED
    assert f"lost {ATTEMPTS} times" in world.summary().reason
    assert len(asked) == ATTEMPTS


def test_the_sweeper_never_asks_a_router_itself() -> None:
    """Its process is the worker's own: what ends it ends all of the worker."""
    processes: list[str] = []
    now = [""]

    def router(team: Team, history: History) -> Route:
        processes.append(now[0])
        return Route(END, "mine", "r", "why")

    world = ending(router).world()
    world.submit(CUSTOM.team)
    world.dispatcher.queue.clear()
    now[0] = "sweeper"
    while not world.dispatcher.queue:
        world.sweep()
    now[0] = "child"
    world.settle()
    assert processes == ["child"]
    assert world.summary().status is TaskStatus.COMPLETED


def test_a_router_that_cannot_be_had_just_now_is_asked_again() -> None:
    asked: list[int] = []

    def router(team: Team, history: History) -> Route:
        asked.append(1)
        if len(asked) <= 2 * ATTEMPTS:
            raise TransientError("the store is away")
        return Route(END, "mine", "r", "why")

    world = ending(router).world()
    world.submit(CUSTOM.team)
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED


def test_a_look_that_always_fails_is_put_aside_and_looked_at_again_by_hand() -> None:
    world = GRAPH.world()
    world.submit(GRAPH.team)
    world.dispatcher.queue.clear()
    looks: list[str] = []

    def watch(name: str, call: PortCall) -> Any:
        if name == "task_store.load":
            looks.append(name)
            raise ZeroDivisionError("a bug")
        return call()

    world.watch = watch
    end = world.clock.now() + 3600
    while world.clock.now() < end:
        world.clock.move(5)
        world.sweep()
    assert len(looks) <= ATTEMPTS + 1
    [letter] = world.engine.dead_letters.entries()
    assert (letter.work, letter.attempts, letter.reason) == ("advance", ATTEMPTS, "ZeroDivisionError: a bug")
    world.watch = make_call
    requeue(world.engine, Celery(), letter.letter_id)
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    assert not world.engine.dead_letters.entries()


def test_letter_of_an_ended_task_is_dismissed_once_and_for_all() -> None:
    world = deadly("model.stream")
    world.settle()
    [letter] = world.engine.dead_letters.entries()
    with pytest.raises(UsageError, match=f"roboco dead-letters delete {letter.letter_id} takes it off the list"):
        requeue(world.engine, Celery(), letter.letter_id)
    assert delete(world.engine, letter.letter_id) == letter
    assert world.engine.dead_letters.entries() == []
    assert delete(world.engine, letter.letter_id) is None
    world.settle()
    assert world.engine.dead_letters.entries() == []


def test_a_task_without_a_history_is_put_aside() -> None:
    world = GRAPH.world()
    world.submit(GRAPH.team)
    world.dispatcher.queue.clear()
    world.server.wipe()
    world.histories.held.clear()
    for _ in range(20):
        world.sweep()
    [letter] = world.engine.dead_letters.entries()
    assert "has no history" in letter.reason
    assert world.server.held.schedule[TASK] > world.clock.now() + 3000


def test_a_sweeper_that_could_not_give_a_task_up_forgets_nothing() -> None:
    world = deadly("dispatcher.turn")
    watch, deaths = world.watch, 0

    def without_letters(name: str, call: PortCall) -> Any:
        nonlocal deaths
        deaths += name == "dispatcher.turn"
        if name == "dead_letters.add":
            raise TransientError("no answer")
        return watch(name, call)

    world.watch = without_letters
    for _ in range(30):
        world.dispatcher.queue.clear()
        world.clock.move(400)
        world.sweep()
    assert deaths == ATTEMPTS, "once it is to be given up, nobody looks at it as before"
    world.watch = watch
    world.settle()
    assert world.summary().status is TaskStatus.FAILED
