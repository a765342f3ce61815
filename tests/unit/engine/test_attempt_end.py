"""The reported ends of attempts whose workers crashed: each has one end, and a finished attempt has none."""

from typing import Any

from roboco.domain.status import TaskStatus
from roboco.ports.dispatcher import AttemptStatus
from tests.support.memory_ports.journeys import TOOLS, member
from tests.support.memory_ports.model import says
from tests.support.memory_ports.watch import Crash, crash_at, make_call
from tests.support.memory_ports.world import World, team_of, world_parts

ONE_AGENT = team_of(agents=[member("first")])
LAST_ATTEMPT = 3


def submit_one(watch: Any = make_call, script: Any = lambda request: says("done")) -> World:
    world = World(world_parts(script))
    world.submit(ONE_AGENT)
    world.watch = watch
    return world


def test_the_last_attempt_of_a_turn_is_reported_as_lost() -> None:
    world = submit_one(crash_at("model.stream"))
    world.settle()
    assert world.summary().status is TaskStatus.FAILED
    assert world.dispatcher.ends == {(1, "first", LAST_ATTEMPT): AttemptStatus.LOST}


def test_a_turn_with_a_stored_step_is_reported_as_done_although_its_worker_crashed() -> None:
    world = submit_one(crash_at("histories.append", after=True, times=1))
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    assert world.dispatcher.ends == {(1, "first", 1): AttemptStatus.DONE}


def test_running_calls_of_a_stopped_task_are_reported_as_superseded() -> None:
    worlds: list[World] = []

    def add(args: dict[str, Any], context: Any) -> int:
        worlds[0].stop()
        raise Crash

    worlds.append(World(world_parts(TOOLS.script, {"add": add})))
    worlds[0].submit(TOOLS.team)
    worlds[0].settle()
    assert worlds[0].summary().status is TaskStatus.CANCELLED
    assert worlds[0].dispatcher.ends == {(1, "add", 1): AttemptStatus.SUPERSEDED}


def test_the_next_process_reports_an_end_that_a_crashed_one_did_not() -> None:
    world = submit_one(crash_at("model.stream"))
    crash_in_stream = world.watch
    crash_once = crash_at("dispatcher.report_attempt_end", times=1)
    world.watch = lambda name, call: crash_in_stream(name, lambda: crash_once(name, call))
    world.settle()
    assert world.dispatcher.ends == {(1, "first", LAST_ATTEMPT): AttemptStatus.LOST}
