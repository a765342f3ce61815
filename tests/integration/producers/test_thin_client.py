"""`pip install roboco` without extras: a client submits, follows, controls, and names the missing extra."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cli.shell import desk_reply
from tests.support.stack import ROOT, Stack
from tests.support.thin_client import thin_client_environment

pytestmark = [pytest.mark.workers, pytest.mark.redis]

SERVICE = """
import sys
from roboco import Orchestrator, StepFinal, TextPartDelta, parse_team

team = parse_team({"name": "talk", "collaboration_model": {"type": "manual"},
                  "agents": [{"name": "host", "prompt": "host {{ context.tone | title }}"}]})
with Orchestrator() as roboco:
    task = roboco.run(team, "hello", context={"tone": "kind"})
    texts = []
    for item in task.stream():
        if isinstance(item.data, TextPartDelta):
            texts.append(item.data.text)
        if isinstance(item.data, StepFinal) and item.data.step.by_agent:
            break
    task.send("and again")
    task.pause()
    task.resume()
    long = roboco.run(team, "for ever", context={"tone": "kind"})
    for item in long.stream():
        if isinstance(item.data, TextPartDelta):
            break
    long.interrupt("shorter")
    task.stop("enough", timeout=30)  # a result may be that of a task that waits, until the stop is applied
    long.stop("enough", timeout=30)
    assert task.result(timeout=60).status == long.result(timeout=60).status == "cancelled"
    print("".join(texts), task.task_id)
"""


def run(command: list[str], folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True, timeout=180, check=False
    )


def test_a_client_without_extras_submits_follows_and_controls(tmp_path: Path) -> None:
    (tmp_path / "service.py").write_text(SERVICE)
    with Stack(tmp_path) as stack:
        stack.model.script(desk_reply)
        env = stack.environment | thin_client_environment(tmp_path)
        assert "No module named 'openai'" in run(["-c", "import openai"], tmp_path, env).stderr
        done = run(["service.py"], tmp_path, env)
        assert done.returncode == 0, done.stderr
        text, task_id = done.stdout.split()[:-1], done.stdout.split()[-1]
        assert text == ["you", "said", "hello"]
        code = "import sys; from roboco.cli.main import run; print([run([word, sys.argv[1]]) for word in sys.argv[2:]])"
        shown = run(["-c", code, task_id, "why", "session", "watch"], tmp_path, env)
        assert shown.stdout.endswith("[0, 0, 1]\n"), shown.stderr  # the task was cancelled
        assert "Traceback" not in shown.stderr
        worker = run(["-m", "celery", "-A", "roboco.workers.app", "worker"], tmp_path, env)
        assert worker.returncode != 0
        assert "a worker needs openai, prometheus-client, snowballstemmer, which are not installed: " in worker.stderr
        assert "run pip install 'roboco[workers]'" in worker.stderr


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        (["demo"], "roboco[local]"),
        pytest.param(["dev"], "roboco[dev-server]", marks=pytest.mark.nightly),
        pytest.param(["demo", "--team", "research"], "roboco[local,mcp,sandbox]", marks=pytest.mark.nightly),
    ],
)
def test_a_command_names_the_extra_that_it_lacks(tmp_path: Path, command: list[str], remedy: str) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)} | thin_client_environment(tmp_path)
    done = run(["-m", "roboco.cli.main", *command], tmp_path, env)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ")
    assert f"run pip install '{remedy}'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_extra_of_the_first_command_has_every_import_of_the_demo(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)} | thin_client_environment(tmp_path, "local", "workers")
    code = (
        "import roboco.workers.app, roboco.model.openai_model, roboco.cli.commands.demo, roboco.cli.main\n"
        "import roboco.tools.search.memory_index as index; from roboco.tools.search.analyzer import spelling\n"
        "print(spelling())"
    )
    done = run(["-c", code], ROOT, env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 ")
