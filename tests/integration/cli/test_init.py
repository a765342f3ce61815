"""`roboco init`: each file that it writes is run as a user would run it."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from roboco.cli import main
from roboco.errors import UsageError
from tests.clients.environments import PAGE
from tests.integration.cli.process import environment
from tests.support.servers.model_server import ModelServer, Reply, Request
from tests.support.stack import ROOT, Stack


def answer(request: Request) -> Reply:
    """Return the reply of the writer, which calls a tool and writes, or of the critic, which approves."""
    if "Pick the tools" in request.system:
        return Reply(text='{"calls": [{"tool": "word_limit", "args": {"kind": "letter"}}]}')
    return Reply(text="Nice." if "kind teacher" in request.system else "Waves come and go.")


def init_project(folder: Path, name: str = "shop", *options: str) -> str:
    """Run `roboco init`, and return its output."""
    result = CliRunner().invoke(main.commands, ["init", str(folder / name), *options], standalone_mode=False)
    assert result.exception is None, result.exception
    return result.output


def test_the_page_is_written_beside_the_team(tmp_path: Path) -> None:
    """`python -m tests.clients @ai-sdk/react` drives it in a browser."""
    output = init_project(tmp_path, "shop", "--web")
    assert {path.name for path in (tmp_path / "shop" / "web").iterdir()} == {path.name for path in PAGE.iterdir()}
    assert "npm --prefix web run dev" in output
    with pytest.raises(AssertionError, match=r"web/chat\.jsx"):
        init_project(tmp_path, "shop", "--web")


def run_script(script: str, folder: Path, env: dict[str, str]) -> str:
    """Run the script with the `roboco` and `python` of these tests, and return its output."""
    bin_folder = folder.parent / "bin"
    bin_folder.mkdir(exist_ok=True)
    for name, command in (("roboco", f"{sys.executable} -m roboco.cli.main"), ("python", sys.executable)):
        (bin_folder / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (bin_folder / name).chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-euc", script],
        cwd=folder,
        env=env | {"PATH": f"{bin_folder}:{env['PATH']}"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.workers
@pytest.mark.redis
def test_the_printed_commands_run_the_team_and_its_tests(tmp_path: Path) -> None:
    output = init_project(tmp_path)
    commands = [line.strip() for line in output.split("next:\n")[1].splitlines() if "bin/activate" not in line]
    assert len(commands) == 3
    with ModelServer() as model:
        model.script(answer)
        env = environment(tmp_path, model.base_url)
        shown = run_script("\n".join(commands), tmp_path, env)
        assert model.violations == []
    assert '→ word_limit(kind="letter")' in shown
    assert "← word_limit" in shown
    assert "Waves come and go." in shown
    assert "── completed" in shown
    assert "Ran 3 tests" in shown
    assert "OK" in shown


@pytest.mark.workers
@pytest.mark.redis
def test_the_service_submits_to_running_workers(tmp_path: Path) -> None:
    init_project(tmp_path)
    project = tmp_path / "shop"
    with Stack(tmp_path, pools=()) as stack:
        stack.model.script(answer)
        for pool in ("coordinator", "agents", "tools"):
            stack.start(pool, ROBOCO_TOOL_MODULES="team_tools", PYTHONPATH=f"{ROOT}:{project}")
        printed = run_script(". ./settings.env; python service.py a letter", project, stack.environment)
        assert printed == "Waves come and go.Nice.\ncompleted\n"
        assert any("for sailors" in record.request.system for record in stack.model.requests)
        assert "team 'shop' is valid" in run_script(
            ". ./settings.env; roboco validate team.yaml", project, stack.environment
        )


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "service.py").write_text("mine")
    result = CliRunner().invoke(main.commands, ["init", str(tmp_path / "shop")], standalone_mode=False)
    assert isinstance(result.exception, UsageError)
    assert "has service.py already: choose another NAME" in str(result.exception)
    assert [path.name for path in (tmp_path / "shop").iterdir()] == ["service.py"]
    assert (tmp_path / "shop" / "service.py").read_text() == "mine"
