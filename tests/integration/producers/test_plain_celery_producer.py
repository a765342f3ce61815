"""Services without Roboco: they submit by the name of the Celery task, and read both channels."""

import json
import subprocess
import sys
import time
from typing import Any

import pytest
import redis

from roboco.domain.paths import summary_path
from tests.support.journeys import GRAPH, shape
from tests.support.stack import Stack, until

pytestmark = pytest.mark.workers

PRODUCER = """
import json, sys
from celery import Celery
assert "roboco" not in sys.modules
arguments = json.load(sys.stdin)
with Celery(broker=sys.argv[1]) as app:
    app.send_task("roboco.submit", kwargs=arguments, queue="roboco.coordinator")
assert "roboco" not in sys.modules
"""


def submit_with_plain_celery(stack: Stack, arguments: dict[str, Any]) -> None:
    """Submit from a process that imports Celery alone."""
    command = [sys.executable, "-I", "-c", PRODUCER, stack.settings.redis_url]
    subprocess.run(command, input=json.dumps(arguments).encode(), check=True, timeout=180)


def submit_and_listen(stack: Stack, task_id: str, arguments: dict[str, Any], last: str) -> list[dict[str, Any]]:
    """Submit, and return the messages of both channels up to an event of type `last`, as redis-py receives them."""
    messages: list[dict[str, Any]] = []
    with redis.Redis.from_url(stack.settings.redis_url) as client, client.pubsub() as pubsub:
        pubsub.subscribe(f"roboco:{{{task_id}}}:content", f"roboco:{{{task_id}}}:events")
        submit_with_plain_celery(stack, arguments)
        deadline = time.monotonic() + 60
        while not messages or messages[-1]["type"] != last:
            assert time.monotonic() < deadline, messages
            message = pubsub.get_message(ignore_subscribe_messages=True, timeout=1)
            if message is not None:
                messages.append(json.loads(message["data"]))
    return messages


def test_a_service_submits_by_name_and_reads_both_channels(shared_stack: Stack) -> None:
    team = json.loads(GRAPH.team.model_dump_json(by_alias=True, exclude_none=True))
    arguments = {"task_id": "from-elsewhere", "team": team, "prompt": GRAPH.prompt, "context": {"who": "shop"}}
    messages = submit_and_listen(shared_stack, "from-elsewhere", arguments, "event_task_end")
    task = shared_stack.orchestrator.task("from-elsewhere")
    assert shape(task.history()) == GRAPH.expected
    chunks = [message for message in messages if message["type"] == "content_chunk"]
    events = [message for message in messages if message["type"] != "content_chunk"]
    assert [chunk["seq"] for chunk in chunks] == list(range(1, len(chunks) + 1))
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert "".join(chunk["text"] for chunk in chunks) == "".join(step.text for step in task.history() if step.by_agent)
    assert events[-1]["chunks"] == len(chunks)


def test_a_repeated_submission_changes_nothing(shared_stack: Stack) -> None:
    team = json.loads(GRAPH.team.model_dump_json(by_alias=True, exclude_none=True))
    arguments = {"task_id": "again", "team": team, "prompt": GRAPH.prompt}
    submit_with_plain_celery(shared_stack, arguments)
    submit_with_plain_celery(shared_stack, arguments)
    until(lambda: has_begun(shared_stack, "again"), 60, "the submission is accepted")
    task = shared_stack.orchestrator.task("again")
    assert task.result(60).status == "completed"
    submit_with_plain_celery(shared_stack, arguments)
    submit_with_plain_celery(shared_stack, arguments | {"task_id": "again-2"})
    until(lambda: has_begun(shared_stack, "again-2"), 60, "the submission is accepted")
    assert shape(shared_stack.orchestrator.task("again").history()) == GRAPH.expected


def has_begun(stack: Stack, task_id: str) -> bool:
    """Return True if the workspace has the task's summary, the last file of a submission."""
    return stack.orchestrator._engine.workspace.files.get(summary_path(task_id)) is not None


def is_stored(stack: Stack, task_id: str) -> bool:
    """Return True if the workspace has the task."""
    return task_id in stack.orchestrator._engine.workspace.files.names("")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"prompt": None}, "prompt: Input should be a valid string"),
        ({"prompt": 7}, "prompt: Input should be a valid string"),
        ({"prompt": "x" * 5_000_000}, "prompt: has 5000000 bytes or more, at most 262144 are possible"),
        ({"team": 3}, "team"),
        ({"team": "unknown"}, "ROBOCO_TEAMS_DIR"),
        ({"team": {"name": "x", "agents": []}}, "agents: write at least 1 agent (found [])"),
        ({"urgency": 3}, "urgency: no such argument, possible are task_id, team, prompt, context, agent"),
        ({"context": [1]}, "context: Input should be a valid dictionary"),
    ],
)
def test_wrong_arguments_are_reported_on_the_channel(shared_stack: Stack, changes: dict[str, Any], error: str) -> None:
    team = json.loads(GRAPH.team.model_dump_json(by_alias=True, exclude_none=True))
    arguments = {"task_id": "wrong", "team": team, "prompt": "Go."} | changes
    if arguments["prompt"] is None:
        del arguments["prompt"]
        error = "prompt: is missing"
    (message,) = submit_and_listen(shared_stack, "wrong", arguments, "event_error")
    assert error in message["message"]
    assert not is_stored(shared_stack, "wrong")
