"""Exit codes and errors of the command line, as text and as JSON."""

import json
from pathlib import Path

import click
import pytest

from roboco import errors
from roboco.cli import main
from roboco.cli.terminal.signals import Interrupted

UNSUPPORTED = {
    "docs": "it prints pages for people",
    "init": "it prints the next commands",
    "dev": "it runs until Ctrl-C, and prints no data",
    "serve": "it runs until Ctrl-C, and prints no data",
    "mcp serve": "its output is for the program that starts it",
}
"""The commands without --json."""
FAILURES = [
    (errors.UsageError("wrong"), 2, "invalid"),
    (errors.AlreadyEnded("too late"), 2, "ended"),
    (errors.InvalidTeam("team.yaml", ("name: is missing",)), 2, "invalid_team"),
    (errors.TransientError("Redis does not answer"), 1, "unavailable"),
    (errors.ModelError("http_500", "the model is away", True), 1, "http_500"),
    (errors.CorruptHistory("step 3"), 1, "corrupt_history"),
    (click.UsageError("no such option"), 2, "invalid"),
]


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make the command `tasks` raise the error."""

    @click.command()
    @click.option("--json", is_flag=True, expose_value=False)
    def command() -> None:
        raise error

    monkeypatch.setattr(main.Commands, "get_command", lambda self, context, name: command)


@pytest.mark.parametrize(("error", "code", "kind"), FAILURES, ids=lambda value: getattr(value, "code", None))
def test_error_has_its_exit_code_and_is_one_json_object_with_json(
    error: Exception, code: int, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(monkeypatch, error)
    assert main.run(["tasks"]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "error: " in printed.err.lower()
    assert main.run(["tasks", "--json"]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    [line] = printed.err.splitlines()
    found = json.loads(line)
    assert found["code"] == kind
    assert found["message"]
    assert set(found) - {"code", "message"} == ({"mistakes"} if kind == "invalid_team" else set())


def test_signal_has_the_exit_code_of_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (2, 15):
        fail_with(monkeypatch, Interrupted(number))
        assert main.run(["tasks"]) == 128 + number


@pytest.mark.parametrize(
    "arguments", [["submit", "--json"], ["nonsense", "--json"], ["limits", "t", "--json"]], ids=" ".join
)
def test_wrong_command_line_is_json_too(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROBOCO_WORKSPACE", tmp_path.as_uri())
    assert main.run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert json.loads(printed.err)["code"] == ("not_found" if arguments[0] == "limits" else "invalid")


def leaf_commands(command: click.Command, path: str = "") -> list[tuple[str, click.Command]]:
    """Return each command with its path."""
    if not isinstance(command, click.Group):
        return [(path, command)]
    context = click.Context(command)
    found = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
    return [leaf for name, one in found if one for leaf in leaf_commands(one, f"{path} {name}".strip())]


def test_each_command_that_prints_data_has_json() -> None:
    found = leaf_commands(main.commands)
    without = {path for path, one in found if not any("--json" in parameter.opts for parameter in one.params)}
    assert without == set(UNSUPPORTED)
