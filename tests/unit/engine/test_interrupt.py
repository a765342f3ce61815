"""Interruptions: what becomes of them at each moment of a task."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from roboco.domain.history.step import TaskStep
from roboco.domain.status import TaskStatus
from roboco.errors import UsageError
from roboco.ports.model import Request
from roboco.ports.tools import ToolContext
from tests.support.memory_ports.dispatcher import TurnMessage
from tests.support.memory_ports.journeys import MANUAL, TOOLS, assert_whole, member, speaker
from tests.support.memory_ports.model import Said, said
from tests.support.memory_ports.reader import items_of, read_items
from tests.support.memory_ports.watch import Crash
from tests.support.memory_ports.world import POLICY, TASK, World, given, team_of

PAIR = team_of(agents=[member("first"), member("second")], collaboration_model={"type": "sequential"})


def interrupted_once(act: Callable[[World], None], texts: tuple[str, ...] = ("half ", "a word")) -> World:
    """A world in which `act` is done in the middle of the first answer."""
    worlds: list[World] = []

    def script(request: Request) -> Said:
        if any(message["content"] == "shorter" for message in request.messages):
            return said(f"{speaker(request)} is brief")
        return Said(texts, meanwhile=lambda: act(worlds[0]))

    worlds.append(World(given(script)))
    worlds[0].submit(PAIR)
    return worlds[0]


def told(steps: list[TaskStep]) -> list[tuple[str, str]]:
    return [(step.agent_name, step.text) for step in steps]


def events(world: World) -> list[str]:
    return [record["type"] for record in world.published() if "chunks" in record]


def test_what_was_said_stands_and_the_same_agent_goes_on() -> None:
    world = interrupted_once(lambda world: world.interrupt("shorter"))
    world.settle()
    assert told(world.history()) == [
        ("user", "go"),
        ("first", "half a word"),
        ("user", "shorter"),
        ("first", "first is brief"),
        ("second", "second is brief"),
    ]
    spoken = world.history()[1]
    assert spoken.interrupted
    assert spoken.metadata["receipt"]["chunks_after"] == 0
    assert spoken.metadata["usage"]["estimated"] is True
    assert world.given.model.streams[0].closed
    assert world.history()[3].metadata["routing"]["rule"] == "interrupted"
    interrupt = [record for record in world.events() if record["type"] == "event_user_interrupt"]
    assert [record["receipt"] for record in interrupt] == [spoken.metadata["receipt"]]
    assert world.summary().status is TaskStatus.COMPLETED
    assert_whole(world, "")


def test_the_agent_is_told_that_it_was_interrupted() -> None:
    world = interrupted_once(lambda world: world.interrupt("shorter"))
    world.settle()
    assert [message["content"] for message in world.given.model.requests[1].messages[1:]] == [
        "go",
        "half a word\n(interrupted by the user)",
        "shorter",
    ]


def test_before_the_first_token_the_agent_has_said_nothing() -> None:
    world = interrupted_once(lambda world: world.interrupt("shorter"), texts=())
    world.settle()
    assert told(world.history())[:4] == [
        ("user", "go"),
        ("first", ""),
        ("user", "shorter"),
        ("first", "first is brief"),
    ]
    assert [message["content"] for message in world.given.model.requests[1].messages[1:]] == ["go", "shorter"]
    assert_whole(world, "")


def test_before_a_worker_took_the_turn_it_is_passed_over() -> None:
    world = interrupted_once(lambda _: None)
    world.deliver(world.dispatcher.queue.popleft())
    [turn] = world.dispatcher.queue
    assert isinstance(turn, TurnMessage)
    world.interrupt("shorter")
    world.settle()
    assert told(world.history())[:3] == [("user", "go"), ("user", "shorter"), ("first", "first is brief")]
    assert len(world.given.model.requests) == 2
    assert_whole(world, "")


def test_a_worker_does_not_begin_a_turn_that_was_interrupted_in_the_queue() -> None:
    world = interrupted_once(lambda _: None)
    world.deliver(world.dispatcher.queue.popleft())
    turn = world.dispatcher.queue.popleft()
    world.interrupt("shorter")
    world.dispatcher.queue.appendleft(turn)
    world.deliver(world.dispatcher.queue.popleft())
    assert not world.given.model.requests
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED


def test_two_in_a_row_are_both_steps() -> None:
    def twice(world: World) -> None:
        world.interrupt("listen", "item1")
        world.interrupt("shorter", "item2")

    world = interrupted_once(twice)
    world.settle()
    assert told(world.history())[1:5] == [
        ("first", "half a word"),
        ("user", "listen"),
        ("user", "shorter"),
        ("first", "first is brief"),
    ]
    assert_whole(world, "")


def test_the_same_one_twice_is_one_step() -> None:
    def twice(world: World) -> None:
        world.interrupt("shorter")
        world.interrupt("shorter")

    world = interrupted_once(twice)
    world.settle()
    assert [text for name, text in told(world.history()) if name == "user"] == ["go", "shorter"]


def test_while_the_task_waits_it_is_the_next_step() -> None:
    world = MANUAL.world()
    world.submit(MANUAL.team)
    world.settle()
    world.interrupt("more")
    world.settle()
    assert told(world.history())[2:] == [("user", "more"), ("helper", "helper answers more")]
    assert events(world).count("event_user_interrupt") == 1


def test_after_the_end_it_is_refused() -> None:
    world = interrupted_once(lambda _: None)
    world.given.model.script = lambda request: said("done")
    world.settle()
    with pytest.raises(UsageError, match="has ended"):
        world.interrupt("too late")
    assert len(world.history()) == 3


def test_it_names_who_answers() -> None:
    world = interrupted_once(lambda world: world.interrupt("shorter", agent="second"))
    world.settle()
    assert told(world.history())[1:4] == [
        ("first", "half a word"),
        ("user", "shorter"),
        ("second", "second is brief"),
    ]


def test_one_goes_before_messages_that_queue() -> None:
    def both(world: World) -> None:
        world.send("shorter", "item1")
        world.interrupt("now", "item2")

    world = interrupted_once(both)
    world.settle()
    assert told(world.history())[2:4] == [("user", "now"), ("user", "shorter")]


def test_it_closes_open_calls_and_tells_the_tool() -> None:
    worlds: list[World] = []
    flags: list[bool] = []

    def add(args: dict[str, Any], context: ToolContext) -> int:
        if args["a"] == 3:
            worlds[0].interrupt("stop adding")
            worlds[0].drain()
            flags.append(context.cancelled)
        return int(args["a"])

    def script(request: Request) -> Said:
        if any(message["content"] == "stop adding" for message in request.messages):
            return said("I stop")
        return TOOLS.script(request)

    worlds.append(World(given(script, {"add": add})))
    worlds[0].submit(TOOLS.team)
    worlds[0].settle()
    [_, lead, results, user, again] = worlds[0].history()
    assert flags == [True]
    assert [result.is_error for result in results.results] == [False, True, True, True]
    assert "not finished: the user interrupted the work" in str(results.results[1].error)
    assert (user.text, again.text, again.agent_name) == ("stop adding", "I stop", lead.agent_name)
    answered = [
        message["tool_call_id"] for message in worlds[0].given.model.requests[-1].messages if "tool_call_id" in message
    ]
    assert answered == [call.id for call in lead.calls]
    assert_whole(worlds[0], "")


def test_a_worker_that_does_not_answer_is_passed_over_after_a_grace() -> None:
    """It stands still with the position free; what it stores later is not taken."""

    def stands_still(world: World) -> None:
        world.watch = stops(world, world.watch)
        world.interrupt("shorter")

    def stops(world: World, before: Any) -> Any:
        def watch(name: str, call: Any) -> Any:
            if name == "turns.cancel_request":
                world.watch = before
                began = world.clock.now()
                for _ in range(4):
                    world.drain()
                    world.clock.move(1.0)
                    world.sweep()
                assert world.clock.now() - began < POLICY.lease
                assert told(world.history())[1] == ("user", "shorter")
            return call()

        return watch

    world = interrupted_once(stands_still)
    world.settle()
    assert told(world.history()) == [
        ("user", "go"),
        ("user", "shorter"),
        ("first", "first is brief"),
        ("second", "second is brief"),
    ]
    assert_whole(world, "")


def test_a_worker_that_dies_of_it_leaves_the_message() -> None:
    def dies(world: World) -> None:
        world.interrupt("shorter")
        raise Crash

    world = interrupted_once(dies)
    world.settle()
    assert told(world.history())[:3] == [("user", "go"), ("user", "shorter"), ("first", "first is brief")]
    follower = read_items(items_of(world.published(), partial(world.histories.read, TASK)))
    assert follower.steps == world.history()
    assert_whole(world, "")


def test_a_lost_signal_is_told_by_the_next_chunk() -> None:
    worlds: list[World] = []

    def script(request: Request) -> Said:
        return said("a b c d") if len(worlds[0].given.model.requests) == 1 else said("brief")

    def watch(name: str, call: Any) -> Any:
        answer = call()
        if name == "turns.emit" and not worlds[0].server.deaf:
            worlds[0].server.deaf = True
            worlds[0].interrupt("shorter")
        return answer

    worlds.append(World(given(script)))
    worlds[0].submit(team_of(agents=[member("only")]))
    while not isinstance(worlds[0].dispatcher.queue[0], TurnMessage):
        worlds[0].deliver(worlds[0].dispatcher.queue.popleft())
    worlds[0].watch = watch
    worlds[0].deliver(worlds[0].dispatcher.queue.popleft())
    spoken = worlds[0].history()[1]
    assert (spoken.interrupted, spoken.text) == (True, "a b")
    assert spoken.metadata["receipt"]["chunks_after"] == 1


def test_a_message_may_be_refused_while_the_team_works() -> None:
    refused: list[str] = []

    def polite(world: World) -> None:
        try:
            world.send("shorter", if_busy="reject")
        except UsageError as error:
            refused.append(str(error))

    world = interrupted_once(polite)
    world.settle()
    assert "takes no message while its team is busy" in refused[0]
    assert "shorter" not in [text for _, text in told(world.history())]


@pytest.mark.parametrize("policy", ["queue", "interrupt"])
def test_a_team_says_what_becomes_of_messages(policy: str) -> None:
    team = PAIR.model_copy(update={"if_busy": policy})
    worlds: list[World] = []

    def script(request: Request) -> Said:
        return Said(("all ", "of it"), meanwhile=lambda: worlds[0].send("shorter"))

    worlds.append(World(given(script)))
    worlds[0].submit(team)
    worlds[0].deliver(worlds[0].dispatcher.queue.popleft())
    worlds[0].deliver(worlds[0].dispatcher.queue.popleft())
    spoken = worlds[0].history()[1]
    assert spoken.interrupted is (policy == "interrupt")
    worlds[0].given.model.script = lambda request: said("done")
    worlds[0].settle()
    assert worlds[0].history()[2].text == "shorter"


@pytest.mark.parametrize("policy", ["queue", "interrupt", "reject"])
def test_the_same_message_again_is_the_same_whatever_the_team_says(policy: str) -> None:
    world = MANUAL.world()
    world.submit(MANUAL.team.model_copy(update={"if_busy": policy}))
    world.settle()
    world.send("more")
    world.send("more")
    world.settle()
    world.send("more")
    world.settle()
    assert [text for name, text in told(world.history()) if name == "user"] == ["go", "more"]
