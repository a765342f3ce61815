"""Records journeys as histories of v1: `python -m tests.replay.record NAME`. Released ones are never recorded again."""

import sys
from pathlib import Path

from roboco.domain.paths import summary_path, team_path
from tests.support.memory_ports.controlled import CONTROLLED
from tests.support.memory_ports.journeys import JOURNEYS
from tests.support.memory_ports.world import TASK

FOLDER = Path(__file__).parent / "histories" / "v1"


def record(name: str) -> None:
    """Run the journey, and store its team, its history and its summary."""
    journey = {**JOURNEYS, **CONTROLLED}[name]
    world = journey.run(journey.world())
    (FOLDER / f"{name}.team.json").write_bytes(world.files.held[team_path(TASK)] + b"\n")
    (FOLDER / f"{name}.task.json").write_bytes(world.files.held[summary_path(TASK)] + b"\n")
    (FOLDER / f"{name}.jsonl").write_bytes(b"".join(line + b"\n" for line in world.histories.lines(TASK)))


if __name__ == "__main__":
    for named in sys.argv[1:]:
        record(named)
