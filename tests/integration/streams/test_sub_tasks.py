"""A follower of a task with its sub-tasks that reconnects, and the same over HTTP."""

import random
from collections.abc import Iterable
from itertools import islice

import pytest

from roboco import StreamItem, Task, parse_team
from roboco.team_files.safe_yaml import read_yaml
from tests.support.documents import examples
from tests.support.received_items import comparable
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack

pytestmark = pytest.mark.workers


def answers(request: Request) -> Reply:
    """Return a delegation to the team, a plan, what is known of a search, or the report."""
    if request.system.startswith("Ask the desk"):
        asked = Reply(tool_calls=(("delegate", {"team": "desk", "prompt": "What moves the sea?"}),))
        return asked if request.messages[-1]["role"] == "user" else Reply(text="the moon")
    if request.system.startswith("Plan searches"):
        return Reply(text='{"searches": ["tides", "moon", "sun"]}')
    words = [f"{word} {number}, " for number in range(15) for word in ("wave", "foam")]
    return Reply(chunks=[*words, request.system], interval=0.002)


def of_task(items: Iterable[StreamItem], task_id: str) -> list[str]:
    return comparable(item for item in items if item.task_id == task_id)


def test_a_follower_that_reconnects_gets_each_item_of_all_tasks_once(shared_stack: Stack) -> None:
    [team] = [read_yaml(one.text) for one in examples("team") if "map: {over" in one.text]
    shared_stack.model.script(answers)
    task = shared_stack.orchestrator.run(parse_team({"name": "desk"} | team), "What moves the sea?")
    dice, found = random.Random(4), list[StreamItem]()
    for _ in range(30):
        for _, item in zip(range(dice.randint(1, 9)), _stream(task, found), strict=False):
            found.append(item)
    found += _stream(task, found)
    listed = task.result(60).outputs["research"]
    assert [entry["item"] for entry in listed] == ["tides", "moon", "sun"]
    assert all(entry["text"].endswith(f"Report what you know of {entry['item']}.") for entry in listed)
    for task_id in (task.task_id, *(entry["task_id"] for entry in listed)):
        assert of_task(found, task_id) == comparable(shared_stack.orchestrator.task(task_id).stream())


def test_the_stream_of_a_task_has_the_sub_tasks_of_its_sub_task(shared_stack: Stack) -> None:
    [team] = [read_yaml(one.text) for one in examples("team") if "map: {over" in one.text]
    shared_stack.model.script(answers)
    lead = {"name": "lead", "prompt": "Ask the desk.", "delegates": ["desk"]}
    task = shared_stack.orchestrator.run(
        parse_team({"name": "top", "agents": [lead], "teams": {"desk": {"name": "desk"} | team}}), "Ask."
    )
    found = list[StreamItem]()
    for count in (1, 5, 20, 40, None):
        found += islice(_stream(task, found), count)
    ids = list(dict.fromkeys(item.task_id for item in found))
    assert (len(ids), [one.count(".") for one in sorted(ids)]) == (5, [0, 1, 2, 2, 2])
    for task_id in ids:
        assert of_task(found, task_id) == comparable(shared_stack.orchestrator.task(task_id).stream())


def _stream(task: Task, found: list[StreamItem]) -> Iterable[StreamItem]:
    return task.stream(found[-1].cursor if found else None, subtasks=True)
