"""The life of a task: the diagram in the guide to tasks shows the changes of status that occur."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

from roboco.domain.status import TaskStatus
from tests.faults.enumerated import ALL
from tests.support.memory_ports.journeys import Journey
from tests.support.memory_ports.world import TASK

GUIDE = Path(__file__).parents[3] / "roboco" / "docs" / "tasks.md"
EDGE = re.compile(r"^\s+(\S+) --> (\S+?)(?:: .*)?$", re.MULTILINE)
NO_STATUS = "[*]"


def changes_of(journey: Journey) -> set[tuple[str, str]]:
    """Return the changes of the task's status in this journey, the first and the last one included."""
    statuses = [NO_STATUS]

    def watch(name: str, call: Any) -> Any:
        answer, task = call(), world.server.held.tasks.get(TASK)
        if task is not None and task.status.value != statuses[-1]:
            statuses.append(task.status.value)
        return answer

    world = journey.world(watch)
    journey.run(world)
    if TaskStatus(statuses[-1]).ended:
        statuses.append(NO_STATUS)
    return set(pairwise(statuses))


def test_the_diagram_shows_all_statuses_and_the_changes_that_occur() -> None:
    drawn = set(EDGE.findall(GUIDE.read_text()))
    assert set[tuple[str, str]]().union(*map(changes_of, ALL.values())) <= drawn
    assert {status for edge in drawn for status in edge} - {NO_STATUS} == {status.value for status in TaskStatus}
