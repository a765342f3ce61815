"""Commands that need no server, invoked through click."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from roboco import InvalidTeam, UsageError
from roboco.cli.main import commands
from roboco.domain.history.part import TextPart
from roboco.domain.history.step import TaskStep
from tests.unit.cli.live_items import STARTED_AT

BAD = """
name: bad team
agents:
  - {name: a, prompt: "{{ nope }}", tools: [unheard_of]}
  - {name: a, prompt: x, wrong: 1}
"""


@pytest.fixture(autouse=True)
def _empty_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("ROBOCO_TOOL_MODULES", "ROBOCO_WORKSPACE", "ROBOCO_REDIS_URL"):
        monkeypatch.delenv(name, raising=False)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(commands, arguments, standalone_mode=False)


def test_validate_reports_all_mistakes(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(BAD)
    error = call("validate", "bad.yaml").exception
    assert isinstance(error, InvalidTeam)
    result = call("validate", "bad.yaml", "--json")
    assert result.return_value == 2
    assert json.loads(result.output) == {
        "valid": False,
        "code": "invalid_team",
        "message": str(error),
        "mistakes": list(error.mistakes),
        "warnings": [],
    }
    assert len(error.mistakes) == 5
    good = tmp_path / "good.yaml"
    good.write_text("name: good\nagents: [{name: a, prompt: x}]")
    assert "team 'good' is valid: sequential, agents a" in call("validate", "good.yaml").output
    printed = json.loads(call("validate", "good.yaml", "--json").output)
    assert printed == {"valid": True, "mistakes": [], "warnings": []}
    assert isinstance(call("validate", "none.yaml").exception, UsageError)


def test_validate_imports_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_of_test_commands.py").write_text(
        "from roboco import tool\n"
        "@tool\n"
        "def search(query: str) -> str:\n"
        "    'Search.'\n"
        "    return query\n"
        "unmarked = len\n"
    )
    (tmp_path / "broken_of_test_commands.py").write_text("1/0")
    functions = ["shop_of_test_commands:search", "shop_of_test_commands:unmarked", "shop_of_test_commands:none"]
    functions += ["broken_of_test_commands:x", "os:system"]
    declared = [{"name": f"tool{index}", "function": name} for index, name in enumerate(functions)]
    team = {"name": "t", "agents": [{"name": "a", "prompt": "x"}], "tools": declared}
    (tmp_path / "team.json").write_text(json.dumps(team))
    assert call("validate", "team.json").exception is None  # without ROBOCO_TOOL_MODULES nothing is imported
    monkeypatch.setenv("ROBOCO_TOOL_MODULES", "shop_of_test_commands,broken_of_test_commands")
    error = call("validate", "team.json").exception
    assert isinstance(error, InvalidTeam)
    at = [mistake.partition(":")[0] for mistake in error.mistakes]
    assert at == ["tools[1].function", "tools[2].function", "tools[3].function", "tools[4].function"]
    assert "ZeroDivisionError" in error.mistakes[2]


def write_history(tmp_path: Path, count: int = 3) -> Path:
    lines, digest = [], ""
    for seq in range(count):
        step = TaskStep(
            step_id=f"step_{seq}",
            seq=seq,
            agent_name="user",
            parts=(TextPart(text=f"text {seq}"),),
            created_at=STARTED_AT,
        ).sealed(digest)
        lines.append(step.line() + "\n")
        digest = step.digest
    path = tmp_path / "history.jsonl"
    path.write_text("".join(lines))
    return path


def test_verify_reports_damage_in_a_file(tmp_path: Path) -> None:
    path = write_history(tmp_path)
    assert call("verify", str(path)).output == "3 steps are intact\n"
    path.write_text(path.read_text() + '{"half')
    assert "a last line without its end" in call("verify", str(path)).output
    path.write_text(path.read_text().replace("text 1", "text one"))
    result = call("verify", str(path), "--json")
    assert result.return_value == 1
    assert "step 1" in json.loads(result.output)["message"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("resolve", "t", "tc_1", "--happened", "--result", "{"), "must be JSON"),
        (("answer", "t", "tc_1", "--result", "nonsense"), "must be JSON"),
        (("approve", "t", "tc_1", "--args", "{"), "must be JSON"),
        (("approve", "t", "tc_1", "--args", "[1]"), "must be a JSON object (found '[1]')"),
        (("approve", "t", "tc_1", "--args", "null"), "must be a JSON object (found 'null')"),
        (("resolve", "t", "tc_1"), "say --happened or --did-not-happen"),
        (("send", "t", "hello", "--if-busy", "shout"), "'shout' is not one of 'queue', 'interrupt', 'reject'"),
        (("interrupt", "t", "hello", "--timeout", "-1"), "is not in the range"),
        (("fork", "t", "--seq", "-1"), "-1 is not in the range"),
    ],
)
def test_an_invalid_option_is_refused(arguments: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(commands, arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize(
    "arguments",
    [
        ("send", "none", "hello"),
        ("interrupt", "none", "hello"),
        ("stop", "none"),
        ("pause", "none"),
        ("resume", "none"),
        ("step", "none"),
        ("answer", "none", "tc_1"),
        ("approve", "none", "tc_1"),
        ("deny", "none", "tc_1"),
        ("resolve", "none", "tc_1", "--happened"),
        ("session", "none"),
        ("delta", "none"),
    ],
)
def test_an_unknown_task_is_refused(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROBOCO_WORKSPACE", tmp_path.as_uri())
    error = call(*arguments).exception
    assert isinstance(error, UsageError)
    assert "no task 'none' in this workspace" in str(error)
