"""Interruptions: their effect at each moment of a task."""

from typing import Any

import pytest

from roboco.domain.history.step import TaskStep
from roboco.ports.model import Request
from tests.support.memory_ports.dispatcher import TurnMessage
from tests.support.memory_ports.journeys import assert_whole, member
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.two_agents import TWO_AGENTS, world_of_two_agents
from tests.support.memory_ports.world import POLICY, World, team_of, world_parts


def texts_of(steps: list[TaskStep]) -> list[tuple[str, str]]:
    return [(step.agent_name, step.text) for step in steps]


def test_a_hanging_worker_is_superseded_after_the_grace_period() -> None:
    """It hangs before it stores its step; a step that it stores later is ignored."""

    def hang(world: World) -> None:
        world.watch = sweep_before_the_cancellation(world, world.watch)
        world.interrupt("shorter")

    def sweep_before_the_cancellation(world: World, before: Any) -> Any:
        def watch(name: str, call: Any) -> Any:
            if name == "leases.cancel_request":
                world.watch = before
                start = world.clock.now()
                for _ in range(4):
                    world.drain()
                    world.clock.move(1.0)
                    world.sweep()
                assert world.clock.now() - start < POLICY.lease
                assert texts_of(world.history())[1] == ("user", "shorter")
            return call()

        return watch

    world = world_of_two_agents(hang)
    world.settle()
    assert texts_of(world.history()) == [
        ("user", "go"),
        ("user", "shorter"),
        ("first", "first is brief"),
        ("second", "second is brief"),
    ]
    assert_whole(world, "")


def test_the_next_chunk_reports_an_interruption_whose_signal_was_lost() -> None:
    worlds: list[World] = []

    def script(request: Request) -> ScriptedReply:
        return says("a b c d") if len(worlds[0].given.model.requests) == 1 else says("brief")

    def watch(name: str, call: Any) -> Any:
        answer = call()
        if name == "leases.emit" and not worlds[0].server.deaf:
            worlds[0].server.deaf = True
            worlds[0].interrupt("shorter")
        return answer

    worlds.append(World(world_parts(script)))
    worlds[0].submit(team_of(agents=[member("only")]))
    while not isinstance(worlds[0].dispatcher.queue[0], TurnMessage):
        worlds[0].deliver(worlds[0].dispatcher.queue.popleft())
    worlds[0].watch = watch
    worlds[0].deliver(worlds[0].dispatcher.queue.popleft())
    interrupted_step = worlds[0].history()[1]
    assert (interrupted_step.interrupted, interrupted_step.text) == (True, "a b")
    assert interrupted_step.metadata["receipt"]["chunks_after"] == 1


@pytest.mark.parametrize("policy", ["queue", "interrupt"])
def test_the_policy_of_a_team_decides_on_messages(policy: str) -> None:
    team = TWO_AGENTS.model_copy(update={"if_busy": policy})
    worlds: list[World] = []

    def script(request: Request) -> ScriptedReply:
        return ScriptedReply(("all ", "of it"), meanwhile=lambda: worlds[0].send("shorter"))

    worlds.append(World(world_parts(script)))
    worlds[0].submit(team)
    worlds[0].deliver(worlds[0].dispatcher.queue.popleft())
    worlds[0].deliver(worlds[0].dispatcher.queue.popleft())
    interrupted_step = worlds[0].history()[1]
    assert interrupted_step.interrupted is (policy == "interrupt")
    worlds[0].given.model.script = lambda request: says("done")
    worlds[0].settle()
    assert worlds[0].history()[2].text == "shorter"
