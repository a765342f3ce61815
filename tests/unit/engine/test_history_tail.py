"""No decision and no prompt depends on the number of steps that Redis keeps."""

from typing import Any

import pytest

from roboco.engine.history_tail import HistoryTails, StepCache
from tests.support.memory_ports.journeys import member, own_turns, speaker
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

TOOLS = [{"name": "look", "function": "shop.search:look", "effect": "pure"}]


def _script(request: Any) -> ScriptedReply:
    """Call tools five times in a run, then answer, then hand over by an edge of the graph."""
    if speaker(request) == "one" and own_turns(request) % 6 < 5:
        return says("", ("look", {"at": own_turns(request)}))
    return says(f"{speaker(request)} has looked")


def run(tail_steps: int | None) -> World:
    """Return a deployment whose task has ended. Redis has kept this number of its steps."""
    graph = {
        "one": [{"to": "two", "when": {"tool_called": "look"}}, {"to": "END"}],
        "two": [{"to": "one", "max_times": 2}, {"to": "END"}],
    }
    world = World(world_parts(_script, {"look": lambda args, context: "seen"}))
    world.server.tail_steps = tail_steps
    team = team_of(
        agents=[member("one", tools=["look"], context={"steps": 60}), member("two")],
        tools=TOOLS,
        collaboration_model={"type": "graph", "routing_graph": graph, "initial_agent": "one"},
        limits={"max_repeats": 0},
    )
    world.submit(team)
    world.settle()
    assert world.failures == []
    return world


def test_a_short_tail_changes_no_step_and_no_request() -> None:
    expected, world = run(None), run(1)
    routes = [[(step.agent_name, step.metadata.get("routing")) for step in one.history()] for one in (expected, world)]
    assert routes[0] == routes[1]
    assert len(routes[0]) > 25
    requests = [[request.messages for request in one.given.model.requests] for one in (expected, world)]
    assert requests[0] == requests[1]


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    world, cache = run(None), StepCache()
    steps = world.history()
    monkeypatch.setattr("roboco.engine.history_tail.MAX_CACHE_BYTES", sum(len(step.line()) for step in steps[-3:]))
    cache.add(steps)
    assert cache.before(steps[-1], 0) == steps[-3:-1]


class CountedHistories:
    """Histories that record the start of each read."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.reads: list[int] = []

    def read(self, task_id: str, start: int = 0) -> Any:
        """Return the steps from a position on."""
        self.reads.append(start)
        return self._world.histories.read(task_id, start)


def test_a_process_reads_a_step_from_the_workspace_once() -> None:
    world = run(2)
    histories = CountedHistories(world)
    tails = HistoryTails(histories, StepCache())  # type: ignore[arg-type]
    task = world.engine.tasks.task_store.load(TASK, 64)
    assert task is not None
    assert len(task.steps.tail) == 2
    for length in (10, 10, 5, 12, 64, 64):
        found = tails.complete(TASK, task, length).steps.tail
        assert list(found) == world.history()[-length:]
    assert histories.reads == [max(0, task.position.seq - length) for length in (10, 12, 64)]
