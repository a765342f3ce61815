"""Services without Roboco submit and follow: with `celery[redis]` alone, and with nothing but a socket."""

import json
import os
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from roboco import Task
from tests.support.documents import example, write_files
from tests.support.journeys import GRAPH, answer, shape
from tests.support.servers.model_server import Reply
from tests.support.stack import ROOT, Stack

pytestmark = [pytest.mark.workers, pytest.mark.slow]

KEY = "a key of the shop with 32 characters and more"


def run(command: list[str], given: str = "", **environment: str) -> str:
    """What the process printed; it finds no module but its own environment's."""
    env = os.environ | environment
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_order(messages: list[dict[str, Any]], task: Task) -> None:
    """Both logs are whole, and say what the task's history says."""
    chunks = [message for message in messages if message["type"] == "content_chunk"]
    events = [message for message in messages if message["type"] != "content_chunk"]
    assert [chunk["seq"] for chunk in chunks] == list(range(1, len(chunks) + 1))
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert "".join(chunk["text"] for chunk in chunks) == "".join(step.text for step in task.history() if step.by_agent)
    assert events[-1]["type"] == "event_task_end"
    assert events[-1]["chunks"] == len(chunks)


def submission(task_id: str) -> dict[str, Any]:
    """The arguments that submit the journey."""
    team = json.loads(GRAPH.team.model_dump_json(by_alias=True, exclude_none=True))
    return {"task_id": task_id, "team": team, "prompt": GRAPH.prompt, "context": {"who": "schöner Laden"}}


@pytest.fixture(scope="module")
def celery_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a virtual environment in which nothing but `celery[redis]` was installed."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "celery[redis]"]
    installed = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if installed.returncode and not os.environ.get("CI"):
        pytest.skip(f"pip cannot install celery here: {installed.stderr.strip()[-200:]}")
    assert installed.returncode == 0, installed.stderr
    return python


def test_producer_of_the_guide_needs_celery_alone(folder_stack: Stack, celery_alone: Path, tmp_path: Path) -> None:
    folder_stack.model.script(lambda request: Reply(text=f"You say: {request.last_user}"))
    write_files(tmp_path)
    for name in ("submit.py", "follow.py"):
        there = (tmp_path / name).read_text()
        assert "redis://127.0.0.1:6379/0" in there
        (tmp_path / name).write_text(there.replace("redis://127.0.0.1:6379/0", folder_stack.settings.redis_url))
    python = str(celery_alone)
    assert run([python, "-I", "-c", "import importlib.util as u; print(u.find_spec('roboco'))"]) == "None\n"
    run([python, "-I", str(tmp_path / "submit.py")])
    printed = run([python, "-I", str(tmp_path / "follow.py")]).split("\n")
    chunks = [line.removeprefix("content_chunk ") for line in printed if line.startswith("content_chunk ")]
    assert "".join(chunks) == "You say: Hello."
    events = [line for line in printed if line.startswith("event_")]
    assert (events[0], events[1], events[-1]) == ("event_task_start ", "event_user_message Hello.", "event_task_end ")
    run([python, "-I", str(tmp_path / "submit.py")])  # the same again is no other task
    assert shape(folder_stack.orchestrator.task("order-17").history()) == [
        ("user", ["Hello."]),
        ("echo", ["You say: Hello."]),
    ]


def test_a_producer_with_nothing_but_a_socket(folder_stack: Stack) -> None:
    folder_stack.model.script(answer)
    arguments = submission("by-hand")
    script = ROOT / "tests" / "integration" / "producers" / "raw_producer.py"
    command = [sys.executable, "-I", "-S", str(script), str(folder_stack.valkey.port)]
    printed = run(command, json.dumps(arguments))
    task = folder_stack.orchestrator.task("by-hand")
    assert shape(task.history()) == GRAPH.expected
    in_order([json.loads(line) for line in printed.splitlines()], task)


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here, the other language of this test")
def test_a_producer_in_another_language_that_signs(tmp_path: Path) -> None:
    with Stack(tmp_path, signing_keys=(KEY,)) as stack:
        stack.model.script(answer)
        script = str(ROOT / "tests" / "integration" / "producers" / "producer.mjs")
        command = ["node", script, str(stack.valkey.port)]
        printed = run(command, json.dumps(submission("by-node")), ROBOCO_SIGNING_KEYS=f"{KEY}, {KEY[::-1]}")
        task = stack.orchestrator.task("by-node")
        assert shape(task.history()) == GRAPH.expected
        in_order([json.loads(line) for line in printed.splitlines()], task)


def test_message_of_the_guide_is_read(folder_stack: Stack) -> None:
    """It is put on the queue as it stands; nobody knows the team that it names, and that is answered."""
    text = example("message")
    with Redis.from_url(folder_stack.settings.redis_url, decode_responses=True) as client, client.pubsub() as pubsub:
        pubsub.subscribe("roboco:{order-18}:events")
        client.lpush("roboco.coordinator", text.replace("order-17", "order-18"))
        heard: Any = None
        deadline = time.monotonic() + 30
        while heard is None and time.monotonic() < deadline:
            heard = pubsub.get_message(ignore_subscribe_messages=True, timeout=1)
    told = json.loads(heard["data"])
    assert told["type"] == "event_error"
    assert told["message"].startswith("team 'echo' was named, but ROBOCO_TEAMS_DIR is not set")
