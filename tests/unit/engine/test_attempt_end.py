"""The reported ends of attempts whose workers crashed: each has one end, and a finished attempt has none."""

from typing import Any

from roboco.domain.status import TaskStatus
from roboco.ports.dispatcher import AttemptStatus
from tests.support.memory_ports.journeys import TOOLS, member
from tests.support.memory_ports.model import ScriptedReply, says
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


def test_a_turn_that_was_interrupted_and_lost_is_reported_as_superseded() -> None:
    worlds: list[World] = []

    def script(request: Any) -> ScriptedReply:
        def crash_after_interrupt() -> None:
            worlds[0].interrupt("shorter")
            raise Crash

        return (
            says("brief")
            if len(worlds[0].given.model.requests) > 1
            else ScriptedReply(("half",), meanwhile=crash_after_interrupt)
        )

    worlds.append(submit_one(script=script))
    worlds[0].settle()
    assert [step.text for step in worlds[0].history()] == ["go", "shorter", "brief"]
    assert worlds[0].dispatcher.ends == {(1, "first", 1): AttemptStatus.SUPERSEDED}


def test_the_last_attempts_of_calls_are_reported_as_lost() -> None:
    world = TOOLS.world(crash_at("toolbox.run"))
    TOOLS.run(world)
    calls = {key: end for key, end in world.dispatcher.ends.items() if key[2] == LAST_ATTEMPT}
    assert world.dispatcher.ends == calls
    assert set(calls.values()) == {AttemptStatus.LOST}
    assert len(calls) >= 1


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
