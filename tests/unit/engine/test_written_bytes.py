"""The bytes written to S3 for a long task are proportional to its steps."""

from collections import Counter
from typing import Any

import pytest

from roboco.domain.history.step import verify_chain
from roboco.workspace.s3_history import S3Histories
from tests.support.memory_ports.journeys import member, own_turns
from tests.support.memory_ports.model import says
from tests.support.memory_ports.objects import MemoryObjects, ObjectFiles
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

pytestmark = pytest.mark.slow

STEP_COUNT = 600
SENTENCE = "The waves come and go at night, and no one counts them. "


def run_and_count_bytes(tools: bool) -> tuple[Counter[str], int]:
    """Return the bytes written by a task of STEP_COUNT steps for each file, and the bytes of its steps."""
    rounds = (STEP_COUNT - 1) // (3 if tools else 1)

    def script(request: Any) -> Any:
        calls_tool = tools and request.messages[-1]["role"] != "tool"
        return says("", ("look", {"up": SENTENCE})) if calls_tool else says(f"{own_turns(request)} " + 8 * SENTENCE)

    objects = MemoryObjects()
    world = World(world_parts(script, {"look": lambda args, context: 8 * SENTENCE}))
    world.files, world.histories = ObjectFiles(objects), S3Histories(objects)  # type: ignore[assignment]
    world.engine = world.process()
    team = team_of(
        agents=[member("one", tools=["look"], context={"steps": 4})],
        tools=[{"name": "look", "function": "shop.search:look", "effect": "pure"}],
        collaboration_model={"type": "sequential", "rounds": rounds},
        limits={"max_steps": 2 * STEP_COUNT, "max_repeats": 0},
    )
    world.submit(team)
    for _ in range(10):
        world.drain(10 * STEP_COUNT)
    lines = list(world.histories.lines(TASK))
    assert verify_chain(lines) >= STEP_COUNT - 2
    assert not objects.names(f"{TASK}/history/")
    return objects.written, sum(map(len, lines))


@pytest.mark.parametrize("tools", [False, True], ids=["only turns", "with tool calls"])
def test_the_written_bytes_are_at_most_four_times_the_steps(tools: bool) -> None:
    files, steps = run_and_count_bytes(tools)
    total = sum(files.values())
    assert files["history.jsonl"] > steps, "it is compacted at the end"
    assert total <= 4 * steps, {name: round(size / steps, 2) for name, size in files.most_common(4)}
