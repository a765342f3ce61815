"""What is written to S3 for a long task stays in proportion to its steps."""

from collections import Counter
from typing import Any

import pytest

from roboco.adapters.workspace.s3_history import S3Histories
from roboco.domain.history.step import verify_chain
from tests.support.memory_ports.journeys import member, own_turns
from tests.support.memory_ports.model import said
from tests.support.memory_ports.objects import MemoryObjects, ObjectFiles
from tests.support.memory_ports.world import TASK, World, given, team_of

pytestmark = pytest.mark.slow

STEPS = 2000
WORDS = "The waves come and go at night, and nobody counts them. "


def written(tools: bool) -> tuple[Counter[str], int]:
    """The bytes of a task of 2,000 steps by file, and of its steps; an agent speaks, or calls a tool in between."""
    rounds = (STEPS - 1) // (3 if tools else 1)

    def script(request: Any) -> Any:
        asked = tools and request.messages[-1]["role"] != "tool"
        return said("", ("look", {"up": WORDS})) if asked else said(f"{own_turns(request)} " + 8 * WORDS)

    objects = MemoryObjects()
    world = World(given(script, {"look": lambda args, context: 8 * WORDS}))
    world.files, world.histories = ObjectFiles(objects), S3Histories(objects)  # type: ignore[assignment]
    world.engine = world.process()
    team = team_of(
        agents=[member("one", tools=["look"], context={"steps": 4})],
        tools=[{"name": "look", "function": "shop.search:look", "effect": "pure"}],
        collaboration_model={"type": "sequential", "rounds": rounds},
        limits={"max_steps": 2 * STEPS, "max_repeats": 0},
    )
    world.submit(team)
    for _ in range(10):
        world.drain(10 * STEPS)
    lines = list(world.histories.lines(TASK))
    assert verify_chain(lines) >= STEPS - 2
    assert not objects.names(f"{TASK}/history/")
    return objects.written, sum(map(len, lines))


@pytest.mark.parametrize("tools", [False, True], ids=["only turns", "with tool calls"])
def test_at_most_three_times_the_steps(tools: bool) -> None:
    files, steps = written(tools)
    total = sum(files.values())
    assert files["history.jsonl"] > steps, "it is folded at the end"
    assert total <= 3 * steps, {name: round(size / steps, 2) for name, size in files.most_common(4)}
