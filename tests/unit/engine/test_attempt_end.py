"""How attempts are shown to end whose workers cannot say it: each has an end, and those that say it themselves none."""

from collections.abc import Callable
from typing import Any

from roboco.domain.status import TaskStatus
from roboco.errors import ModelError
from roboco.ports.dispatcher import AttemptStatus
from tests.support.memory_ports.journeys import GRAPH, TOOLS, member
from tests.support.memory_ports.model import Said, said
from tests.support.memory_ports.watch import Crash, PortCall, make_call
from tests.support.memory_ports.world import World, given, team_of

ONE = team_of(agents=[member("first")])
LAST = 3


def dying(where: str, after: bool = False, times: int = 1000) -> Callable[[str, PortCall], Any]:
    """Ends so many processes at this port call, before or after its effect."""
    left = [times]

    def watch(name: str, call: PortCall) -> Any:
        if name != where or not left[0]:
            return call()
        left[0] -= 1
        if after:
            call()
        raise Crash

    return watch


def one_agent(watch: Any = make_call, script: Any = lambda request: said("done")) -> World:
    world = World(given(script))
    world.submit(ONE)
    world.watch = watch
    return world


def test_nothing_is_shown_of_what_ends_by_itself() -> None:
    for journey in (GRAPH, TOOLS):
        world = journey.world()
        journey.run(world)
        assert world.dispatcher.ends == {}


def test_the_last_attempt_at_a_turn_was_lost() -> None:
    world = one_agent(dying("model.stream"))
    world.settle()
    assert world.summary().status is TaskStatus.FAILED
    assert world.dispatcher.ends == {(1, "first", LAST): AttemptStatus.LOST}


def test_a_turn_whose_step_was_stored_is_done_although_its_worker_died() -> None:
    world = one_agent(dying("histories.append", after=True, times=1))
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    assert world.dispatcher.ends == {(1, "first", 1): AttemptStatus.DONE}


def test_a_stored_step_is_the_attempts_that_made_it() -> None:
    """The second attempt was handed out before the first one had stored its step."""
    world = one_agent()

    def watch(name: str, call: PortCall) -> Any:
        if name != "histories.append":
            return call()
        world.watch = make_call
        world.clock.move(world.given.policy.lease + 1)
        world.sweep()
        call()
        raise Crash

    world.watch = watch
    world.settle()
    assert [step.metadata.get("attempt") for step in world.history()] == [None, 1]
    assert world.dispatcher.ends == {(1, "first", 1): AttemptStatus.DONE}


def test_a_turn_that_was_interrupted_and_lost_is_passed_over() -> None:
    worlds: list[World] = []

    def script(request: Any) -> Said:
        def dies() -> None:
            worlds[0].interrupt("shorter")
            raise Crash

        return said("brief") if len(worlds[0].given.model.requests) > 1 else Said(("half",), meanwhile=dies)

    worlds.append(one_agent(script=script))
    worlds[0].settle()
    assert [step.text for step in worlds[0].history()] == ["go", "shorter", "brief"]
    assert worlds[0].dispatcher.ends == {(1, "first", 1): AttemptStatus.SUPERSEDED}


def test_a_turn_that_waits_for_its_rate_and_is_stopped_is_passed_over() -> None:
    refusal = Said(error=ModelError("rate_limit", "at its limit", True, 600.0))
    world = one_agent(script=lambda request: refusal)
    world.drain()
    world.stop()
    world.settle()
    assert world.summary().status is TaskStatus.CANCELLED
    assert world.dispatcher.ends == {(1, "first", 1): AttemptStatus.SUPERSEDED}


def test_a_turn_that_no_worker_took_ends_by_its_message() -> None:
    world = one_agent()
    world.deliver(world.dispatcher.queue.popleft())
    world.stop()
    world.settle()
    assert world.dispatcher.ends == {}


def test_the_last_attempts_at_calls_were_lost() -> None:
    world = TOOLS.world(dying("toolbox.run"))
    TOOLS.run(world)
    calls = {key: end for key, end in world.dispatcher.ends.items() if key[2] == LAST}
    assert world.dispatcher.ends == calls
    assert set(calls.values()) == {AttemptStatus.LOST}
    assert len(calls) >= 1


def test_calls_that_run_and_are_not_wanted_any_more_are_passed_over() -> None:
    worlds: list[World] = []

    def add(args: dict[str, Any], context: Any) -> int:
        worlds[0].stop()
        raise Crash

    worlds.append(World(given(TOOLS.script, {"add": add})))
    worlds[0].submit(TOOLS.team)
    worlds[0].settle()
    assert worlds[0].summary().status is TaskStatus.CANCELLED
    assert worlds[0].dispatcher.ends == {(1, "add", 1): AttemptStatus.SUPERSEDED}


def test_who_dies_before_it_is_shown_leaves_it_to_the_next() -> None:
    world = one_agent(dying("model.stream"))
    deadly = world.watch
    once = dying("dispatcher.report_attempt_end", times=1)
    world.watch = lambda name, call: deadly(name, lambda: once(name, call))
    world.settle()
    assert world.dispatcher.ends == {(1, "first", LAST): AttemptStatus.LOST}
