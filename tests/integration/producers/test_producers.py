"""Services without Roboco submit and follow: with `celery[redis]` alone, and with only a socket."""

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from roboco import Task
from tests.support.documents import write_files
from tests.support.journeys import GRAPH, answer, shape
from tests.support.servers.model_server import Reply
from tests.support.stack import ROOT, Stack

pytestmark = [pytest.mark.workers, pytest.mark.slow]

SIGNING_KEY = "a key of the shop with 32 characters and more"


def run(command: list[str], given: str = "", **environment: str) -> str:
    """Run the process, and return its output."""
    env = os.environ | environment
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_complete(messages: list[dict[str, Any]], task: Task) -> None:
    """Raise AssertionError unless both logs are complete and have the texts of the task's history."""
    chunks = [message for message in messages if message["type"] == "content_chunk"]
    events = [message for message in messages if message["type"] != "content_chunk"]
    assert [chunk["seq"] for chunk in chunks] == list(range(1, len(chunks) + 1))
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert "".join(chunk["text"] for chunk in chunks) == "".join(step.text for step in task.history() if step.by_agent)
    assert events[-1]["type"] == "event_task_end"
    assert events[-1]["chunks"] == len(chunks)


def submission(task_id: str) -> dict[str, Any]:
    """Return the arguments that submit the journey."""
    team = json.loads(GRAPH.team.model_dump_json(by_alias=True, exclude_none=True))
    return {"task_id": task_id, "team": team, "prompt": GRAPH.prompt, "context": {"who": "schöner Laden"}}


@pytest.fixture(scope="module")
def celery_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of a virtual environment that has `celery[redis]` alone."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    command = [*pip, "install", "--quiet", "--no-compile", "celery[redis]"]
    installed = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if installed.returncode and not os.environ.get("CI"):
        pytest.skip(f"pip cannot install celery here: {installed.stderr.strip()[-200:]}")
    assert installed.returncode == 0, installed.stderr
    return python


def test_producer_of_the_guide_needs_celery_alone(shared_stack: Stack, celery_python: Path, tmp_path: Path) -> None:
    shared_stack.model.script(lambda request: Reply(text=f"You say: {request.last_user}"))
    write_files(tmp_path)
    for name in ("submit.py", "follow.py"):
        program = (tmp_path / name).read_text()
        assert "redis://127.0.0.1:6379/0" in program
        (tmp_path / name).write_text(program.replace("redis://127.0.0.1:6379/0", shared_stack.settings.redis_url))
    python = str(celery_python)
    assert run([python, "-I", "-c", "import importlib.util as u; print(u.find_spec('roboco'))"]) == "None\n"
    run([python, "-I", str(tmp_path / "submit.py")])
    printed = run([python, "-I", str(tmp_path / "follow.py")]).split("\n")
    chunks = [line.removeprefix("content_chunk ") for line in printed if line.startswith("content_chunk ")]
    assert "".join(chunks) == "You say: Hello."
    events = [line for line in printed if line.startswith("event_")]
    assert (events[0], events[1], events[-1]) == ("event_task_start ", "event_user_message Hello.", "event_task_end ")
    run([python, "-I", str(tmp_path / "submit.py")])  # a repeated submission starts no other task
    assert shape(shared_stack.orchestrator.task("order-17").history()) == [
        ("user", ["Hello."]),
        ("echo", ["You say: Hello."]),
    ]


def test_a_producer_with_only_a_socket_submits_and_follows(shared_stack: Stack) -> None:
    shared_stack.model.script(answer)
    arguments = submission("by-hand")
    script = ROOT / "tests" / "integration" / "producers" / "raw_producer.py"
    command = [sys.executable, "-I", "-S", str(script), str(shared_stack.valkey.port)]
    printed = run(command, json.dumps(arguments))
    task = shared_stack.orchestrator.task("by-hand")
    assert shape(task.history()) == GRAPH.expected
    assert_complete([json.loads(line) for line in printed.splitlines()], task)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed, which runs the producer of this test")
def test_a_signing_producer_in_node_submits_and_follows(tmp_path: Path) -> None:
    with Stack(tmp_path, signing_keys=(SIGNING_KEY,)) as stack:
        stack.model.script(answer)
        script = str(ROOT / "tests" / "integration" / "producers" / "producer.mjs")
        command = ["node", script, str(stack.valkey.port)]
        printed = run(
            command, json.dumps(submission("by-node")), ROBOCO_SIGNING_KEYS=f"{SIGNING_KEY}, {SIGNING_KEY[::-1]}"
        )
        task = stack.orchestrator.task("by-node")
        assert shape(task.history()) == GRAPH.expected
        assert_complete([json.loads(line) for line in printed.splitlines()], task)
