"""Work that kills every worker: the task fails after a limited number of attempts, with a dead letter."""

from typing import Any

from celery import Celery

from roboco.client.operator.dead_letters import requeue
from roboco.domain.decision.action import Route
from roboco.domain.history.state import History
from roboco.domain.status import TaskStatus
from roboco.domain.team.collaboration import END
from roboco.domain.team.team import Team
from roboco.errors import TransientError
from tests.support.memory_ports.journeys import CUSTOM, GRAPH, Journey
from tests.support.memory_ports.watch import Crash, PortCall, crash_at, make_call
from tests.support.memory_ports.world import TASK, World

MAX_ATTEMPTS = 3


def crashing_world(where: str) -> World:
    """Return a world with the graph team in which every process crashes at this port call."""
    world = GRAPH.world()
    world.submit(GRAPH.team)
    world.watch = crash_at(where)
    return world


def test_a_turn_that_kills_its_workers_leaves_one_dead_letter() -> None:
    world = crashing_world("model.stream")
    world.settle()
    assert world.summary().status is TaskStatus.FAILED
    [letter] = world.engine.tasks.dead_letters.entries()
    assert (letter.name, letter.task_id, letter.detail, letter.attempts) == (
        "roboco.turn",
        "task_1",
        "writer, step 1",
        MAX_ATTEMPTS,
    )
    assert letter.reason == world.summary().reason


def journey_with_router(router: Any) -> Journey:
    """Return the journey of the custom team with another router."""
    return Journey(CUSTOM.team, CUSTOM.script, routers={"shop.routers:by_turns": router})


def test_a_router_that_kills_its_worker_fails_the_task() -> None:
    router_calls: list[int] = []

    def router(team: Team, history: History) -> Route:
        router_calls.append(len(history.tail))
        raise Crash

    world = journey_with_router(router).world()
    world.submit(CUSTOM.team)
    world.settle()
    assert world.summary().status is TaskStatus.FAILED
    assert f"lost {MAX_ATTEMPTS} times" in world.summary().reason
    assert (error := world.history()[-1].error) is not None
    assert error.code == "router_lost"
    assert len(router_calls) == MAX_ATTEMPTS


def test_the_sweeper_never_calls_a_custom_router() -> None:
    """The sweeper is a thread of the worker's main process, so a crash of its process ends the worker."""
    processes: list[str] = []
    now = [""]

    def router(team: Team, history: History) -> Route:
        processes.append(now[0])
        return Route(END, "mine", "r", "why")

    world = journey_with_router(router).world()
    world.submit(CUSTOM.team)
    world.dispatcher.queue.clear()
    now[0] = "sweeper"
    while not world.dispatcher.queue:
        world.sweep()
    now[0] = "child"
    world.settle()
    assert processes == ["child"]
    assert world.summary().status is TaskStatus.COMPLETED


def test_a_task_whose_passes_always_fail_is_quarantined_and_can_be_requeued() -> None:
    world = GRAPH.world()
    world.submit(GRAPH.team)
    world.dispatcher.queue.clear()
    passes: list[str] = []

    def crash_watch(name: str, call: PortCall) -> Any:
        if name == "task_store.load":
            passes.append(name)
            raise ZeroDivisionError("a bug")
        return call()

    world.watch = crash_watch
    end = world.clock.now() + 3600
    while world.clock.now() < end:
        world.clock.move(5)
        world.sweep()
    assert len(passes) <= MAX_ATTEMPTS + 1
    [letter] = world.engine.tasks.dead_letters.entries()
    assert (letter.work, letter.attempts, letter.reason) == ("advance", MAX_ATTEMPTS, "ZeroDivisionError: a bug")
    world.watch = make_call
    requeue(world.engine, Celery(), letter.letter_id)
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    assert not world.engine.tasks.dead_letters.entries()


def test_a_task_without_a_history_is_quarantined() -> None:
    world = GRAPH.world()
    world.submit(GRAPH.team)
    world.dispatcher.queue.clear()
    world.server.wipe()
    world.histories.held.clear()
    for _ in range(20):
        world.sweep()
    [letter] = world.engine.tasks.dead_letters.entries()
    assert "has no history" in letter.reason
    assert world.server.held.schedule[TASK] > world.clock.now() + 3000


def test_a_task_that_could_not_be_abandoned_keeps_its_count_of_attempts() -> None:
    world = crashing_world("dispatcher.turn")
    crash_watch, crashes = world.watch, 0

    def without_letters(name: str, call: PortCall) -> Any:
        nonlocal crashes
        crashes += name == "dispatcher.turn"
        if name == "dead_letters.add":
            raise TransientError("no answer")
        return crash_watch(name, call)

    world.watch = without_letters
    for _ in range(30):
        world.dispatcher.queue.clear()
        world.clock.move(400)
        world.sweep()
    assert crashes == MAX_ATTEMPTS, "once the task is exhausted, the sweeper makes no further ordinary pass"
    world.watch = crash_watch
    world.settle()
    assert world.summary().status is TaskStatus.FAILED
