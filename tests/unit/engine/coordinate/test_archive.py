"""archive: the files that are kept of a task, and the cost of writing them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.domain.history.compaction import compaction_due
from roboco.domain.paths import events_path
from roboco.ports.model import Request
from tests.support.memory_ports.journeys import SEQUENTIAL, member
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.world import TASK, World, team_of, world_parts


@given(st.integers(17, 2_000))
def test_all_compactions_write_in_proportion_to_the_history(steps: int) -> None:
    points = [seq + 1 for seq in range(steps) if compaction_due(seq)]
    assert sum(points[:-1]) <= points[-1] / 15
    assert steps < 16 * points[-1]


def test_the_history_of_a_long_run_is_compacted_while_it_runs() -> None:
    team = team_of(
        agents=[member("one")], collaboration_model={"type": "sequential", "rounds": 260}, limits={"max_steps": 999}
    )
    world = World(world_parts(lambda request: says("text")))
    world.submit(team)
    world.settle()
    assert world.histories.compactions[TASK] == 3


@pytest.mark.parametrize("tools", [False, True], ids=["conversation", "tool calls"])
def test_the_history_of_every_team_is_compacted(tools: bool) -> None:
    def script(request: Request) -> ScriptedReply:
        return says("", ("look", {})) if tools and request.messages[-1]["role"] != "tool" else says("text")

    world = World(world_parts(script, {"look": lambda args, context: 1}))
    team = team_of(
        agents=[member("one", tools=["look"])],
        tools=[{"name": "look", "function": "shop.search:look", "effect": "pure"}],
        collaboration_model={"type": "manual"},
        limits={"max_steps": 999},
    )
    world.submit(team)
    world.settle()
    for number in range(20):
        world.send("more", f"item{number}")
        world.settle()
    assert world.histories.compactions[TASK] >= 1


def test_the_events_of_an_ended_task_are_in_its_workspace() -> None:
    world = SEQUENTIAL.run(SEQUENTIAL.world())
    events = [json.loads(line) for line in world.files.held[events_path(TASK)].splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["type"] == "event_task_start"
    assert events[-1]["type"] == "event_task_end"
