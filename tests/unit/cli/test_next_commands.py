"""The commands that `roboco init` and `roboco demo` propose run in the user's shell."""

import sys
from pathlib import Path

import pytest

from roboco.cli.commands.demo import _init_command
from roboco.cli.commands.init import next_commands


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the `bin` of a virtual environment with roboco, which is not on PATH."""
    folder = tmp_path / "venv" / "bin"
    folder.mkdir(parents=True)
    for name in ("roboco", "activate"):
        (folder / name).touch(mode=0o755)
    monkeypatch.setattr(sys, "prefix", str(folder.parent))
    monkeypatch.setenv("PATH", "/nowhere")
    for name in ("UV", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    return folder


def test_a_shell_without_roboco_activates_the_environment(environment: Path) -> None:
    first, second, *_ = next_commands(Path("shop"))
    assert first == f". {environment / 'activate'}"
    assert second == "cd shop && . ./settings.env"


def test_the_program_is_named_relative_to_the_folder_or_in_full(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(environment / "roboco")])
    monkeypatch.chdir(tmp_path)
    assert _init_command() == "venv/bin/roboco init my-team"
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")
    assert _init_command() == f"{environment / 'roboco'} init my-team"
    monkeypatch.setenv("UV", "uv")
    assert _init_command() == "the command that you typed, with `init my-team` in place of `demo`"
