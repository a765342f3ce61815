"""A follower of a task with its sub-tasks, at any depth, that reconnects."""

import random

import pytest

from roboco import StreamItem, parse_team
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


def test_a_follower_that_reconnects_gets_each_item_of_all_tasks_once(shared_stack: Stack) -> None:
    """The task delegates to a team with a map, so its sub-task has sub-tasks."""
    [team] = [read_yaml(one.text) for one in examples("team") if "map: {over" in one.text]
    shared_stack.model.script(answers)
    lead = {"name": "lead", "prompt": "Ask the desk.", "delegates": ["desk"]}
    top = {"name": "top", "agents": [lead], "teams": {"desk": {"name": "desk"} | team}}
    task = shared_stack.orchestrator.run(parse_team(top), "Ask.")
    dice, found = random.Random(4), list[StreamItem]()
    for most in (*(dice.randint(1, 9) for _ in range(30)), 10_000):
        cursor = found[-1].cursor if found else None
        found += [item for _, item in zip(range(most), task.stream(cursor, subtasks=True), strict=False)]
    ids = list(dict.fromkeys(item.task_id for item in found))
    assert (len(ids), [one.count(".") for one in sorted(ids)]) == (5, [0, 1, 2, 2, 2])
    for task_id in ids:
        own = comparable(item for item in found if item.task_id == task_id)
        assert own == comparable(shared_stack.orchestrator.task(task_id).stream())
