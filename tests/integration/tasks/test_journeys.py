"""Journeys on three real worker processes, with the workspace in a folder and in S3."""

import json

import pytest

from roboco import Task
from roboco.domain.history.step import verify_chain
from roboco.domain.stream.event import parse_stream_message
from roboco.domain.stream.event_file import from_stored
from tests.support.journeys import JOURNEYS, StackJourney, shape
from tests.support.stack import Stack, until

pytestmark = pytest.mark.workers


@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda journey: journey.name)
def test_a_journey_ends_with_the_expected_history_and_a_complete_workspace(stack: Stack, journey: StackJourney) -> None:
    task = stack.orchestrator.run(journey.team, journey.prompt)
    assert journey.run_to_end(task) == journey.final_status
    assert shape(task.history()) == journey.expected
    assert verify_chain(stack.orchestrator._engine.workspace.histories.lines(task.task_id)) == len(journey.expected)
    assert stack.model.violations == []
    assert_complete_workspace(stack, task, journey.final_status == "completed")


def assert_complete_workspace(stack: Stack, task: Task, completed: bool) -> None:
    """Wait until the files of an idle task are stored, and check its events."""
    files = stack.orchestrator._engine.workspace.files
    expected = {"team.json", "task.json", "events.jsonl"} | ({"history.jsonl"} if completed else set())
    until(lambda: expected <= set(files.names(f"{task.task_id}/")), 60, f"{expected} are stored")
    until(
        lambda: (files.get(f"_open/{task.task_id}") is None) == completed,
        10,
        "only an unfinished task has an open marker",
    )
    lines = (files.get(f"{task.task_id}/events.jsonl") or b"").splitlines()
    events = [
        parse_stream_message(record)
        for record in from_stored(map(json.loads, lines), lambda start: task.history()[start:])
    ]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
