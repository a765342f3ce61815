"""Commands that need no server, invoked through click."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from roboco import InvalidTeam, UsageError
from roboco.cli.commands.schema import team_file_schema
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


def test_help_lists_every_command() -> None:
    result = call()
    assert result.return_value is None
    for name in commands.commands:
        assert f"\n  {name}" in result.output
        assert "..." not in call(name, "--help").output.partition("Options:")[0].replace("[ARGS]...", "")


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
    outer = {"name": "o", "agents": team["agents"], "teams": {"in": team | {"teams": {"deep": team}}}}
    (tmp_path / "outer.json").write_text(json.dumps(outer))
    error = call("validate", "outer.json").exception
    assert isinstance(error, InvalidTeam)
    nested = [mistake.partition(":")[0] for mistake in error.mistakes]
    assert nested == [f"{path}{one}" for path in ("teams.in.", "teams.in.teams.deep.") for one in at]


def test_validate_names_the_field_of_a_type_and_of_a_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "types_of_test_commands.py").write_text(
        "from pydantic import BaseModel\n"
        "from roboco import check\n"
        "class Plan(BaseModel):\n"
        "    more: bool\n"
        "@check\n"
        "def good(value: Plan) -> None: ...\n"
        "def bad(value: Plan) -> None: ...\n"
    )
    kinds: list[tuple[Any, str]] = [("Plan", "good"), ("Plan", "bad"), ({}, "none"), ("None", "good"), ("None", "none")]
    agents = [
        {
            "name": f"a{index}",
            "prompt": "x",
            "output": f"types_of_test_commands:{kind}" if isinstance(kind, str) else kind,
            "validate": f"types_of_test_commands:{check}",
        }
        for index, (kind, check) in enumerate(kinds)
    ]
    (tmp_path / "team.json").write_text(json.dumps({"name": "t", "agents": agents}))
    monkeypatch.setenv("ROBOCO_TOOL_MODULES", "types_of_test_commands")
    error = call("validate", "team.json").exception
    assert isinstance(error, InvalidTeam)
    at = [mistake.partition(":")[0] for mistake in error.mistakes]
    assert at == [
        "agents[1].validate",
        "agents[2].validate",
        "agents[3].output",
        "agents[4].output",
        "agents[4].validate",
    ]


def test_schema_includes_the_fields_of_team_files() -> None:
    printed = json.loads(call("schema").output)
    assert printed == team_file_schema()
    definitions: dict[str, Any] = printed["$defs"]
    assert "prompt_file" in definitions["Agent"]["properties"]
    assert definitions["Agent"]["required"] == ["name"]
    assert "not" in definitions["Condition"]["properties"]  # by alias
    server = definitions["McpServer"]
    assert [one["type"] for one in server["properties"]["tools"]["oneOf"]] == ["string", "object", "array"]
    assert "required" not in server


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


def test_verify_reports_missing_steps_of_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBOCO_WORKSPACE", tmp_path.as_uri())
    folder = tmp_path / "task_1"
    folder.mkdir()
    write_history(folder)
    times = {"created_at": STARTED_AT.isoformat(), "updated_at": STARTED_AT.isoformat()}
    summary = {"task_id": "task_1", "team": "t", "status": "completed", "steps": 3} | times
    (folder / "task.json").write_text(json.dumps(summary))
    assert json.loads(call("verify", "task_1", "--json").output)["steps"] == 3
    write_history(folder, 2)
    assert (
        "is completed with 3 steps, but its history has 2; restore 'task_1/history.jsonl'"
        in json.loads(call("verify", "task_1", "--json").output)["message"]
    )
    assert isinstance(call("verify", "task_2").exception, UsageError)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("resolve", "t", "tc_1", "--happened", "--result", "{"), "must be JSON"),
        (("approve", "t", "tc_1", "--args", "[1]"), "must be a JSON object (found '[1]')"),
        (("resolve", "t", "tc_1"), "say --happened or --did-not-happen"),
    ],
)
def test_an_invalid_option_is_refused(arguments: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(commands, arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


MODELS = """
name: desk
models:
  fast: {model: gpt-4o-mini, label: Fast, description: For most things.}
  good: {model: gpt-4o, default: true}
agents: [{name: a, prompt: x}]
"""


def test_models_lists_the_profiles_of_a_team(tmp_path: Path) -> None:
    (tmp_path / "desk.yaml").write_text(MODELS)
    _, fast, good = call("models", "desk.yaml").output.splitlines()
    assert fast.split() == ["fast", "gpt-4o-mini", "Fast", "For", "most", "things."]
    assert good.split() == ["good", "(default)", "gpt-4o"]
    offered = json.loads(call("models", "desk.yaml", "--json").output)
    assert [(offer["id"], offer["is_default"]) for offer in offered] == [("fast", False), ("good", True)]
    (tmp_path / "plain.yaml").write_text("name: plain\nagents: [{name: a, prompt: x}]")
    assert call("models", "plain.yaml").output == "the team declares no model profiles\n"
