"""Checks of `roboco doctor` that need no server."""

from pathlib import Path
from typing import Any

import pytest

from roboco import Settings
from roboco.allowlist import Allowlist
from roboco.cli.doctor.check import CheckResult
from roboco.cli.doctor.machine import check_sandbox
from roboco.cli.doctor.models import check_models
from roboco.cli.doctor.teams import check_mcp, check_teams, check_tools, loaded_teams
from roboco.cli.doctor.workspace import deletes_old_objects
from roboco.cli.stack.local_model import names_model
from roboco.domain.builtin_tools import PYTHON
from roboco.domain.team.team import Team
from roboco.model.allowlist import LOCAL_KEY
from roboco.tools.sandbox.budget import read_budget
from roboco.tools.sandbox.sandbox import Sandbox
from tests.support.servers.model_server import ModelServer

GOOD = "agents: [{name: a, prompt: x}]"


def states_of(checks: Any) -> dict[str, str]:
    made: list[CheckResult] = list(checks)
    assert all(check.todo for check in made if check.state != "ok")
    return {check.name: check.state for check in made}


def test_tools_that_cannot_be_imported_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    (tmp_path / "broken_shop.py").write_text("raise OSError('no licence')")
    (tmp_path / "good_shop.py").write_text("def add(): ...")
    settings = Settings(tool_modules=("good_shop", "broken_shop", "missing_shop"))
    expected = {"tools good_shop": "ok", "tools broken_shop": "fail", "tools missing_shop": "fail"}
    assert states_of(check_tools(settings)) == expected


def test_teams_that_do_not_load_fail(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(f"name: good\n{GOOD}")
    (tmp_path / "bad.yaml").write_text("name: bad")
    tool = 'tools: [{name: t, function: "missing_shop:t", effect: pure}]'
    (tmp_path / "toolless.yaml").write_text(f"name: toolless\n{GOOD}\n{tool}")
    settings = Settings(teams_dir=tmp_path)
    teams = dict(loaded_teams(settings))
    expected = {"team bad": "fail", "team good": "ok", "team toolless": "fail"}
    assert states_of(check_teams(settings, teams)) == expected
    empty = tmp_path / "empty"
    empty.mkdir()
    assert states_of(check_teams(Settings(teams_dir=empty), {})) == {"teams": "warn"}
    assert states_of(check_teams(Settings(), {})) == {}


def test_missing_mcp_servers_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOP_TOKEN", raising=False)
    assert states_of(check_mcp(Settings(allowlist=Allowlist(mcp_servers=("https://shop.example/mcp",))))) == {
        "mcp": "ok"
    }
    settings = Settings(allowlist=Allowlist(mcp_servers=("no-such-program --stdio",), mcp_env=("SHOP_TOKEN",)))
    assert states_of(check_mcp(settings)) == {"mcp": "fail", "mcp variable": "warn"}
    assert states_of(check_mcp(Settings())) == {}


def test_a_model_without_a_key_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert states_of(check_models([])) == {"model gpt-4o-mini": "fail"}


def test_the_local_model_of_dev_is_none_that_lacks_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer() as server:
        for name, value in {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": LOCAL_KEY}.items():
            monkeypatch.setenv(name, value)
        assert states_of(check_models([])) == {"model gpt-4o-mini": "ok"}
        monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
        assert states_of(check_models([])) == {"model gpt-4o-mini": "warn"}


def test_the_local_model_of_dev_is_no_model_that_a_user_names() -> None:
    ours = {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "OPENAI_API_KEY": LOCAL_KEY}
    assert not names_model(ours)
    assert names_model(ours | {"OPENAI_API_KEY": "sk-1"})
    assert names_model({"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"})
    assert not names_model({})


@pytest.mark.parametrize(
    ("profile", "allowed", "state", "found"),
    [
        ({"base_url": "http://127.0.0.1:9/v1", "api_key_env": "SHOP_TOKEN"}, (), "fail", "may not use the address"),
        ({"provider": "anthropic"}, ("ANTHROPIC_API_KEY",), "fail", "ANTHROPIC_API_KEY is not set"),
        ({"provider": "bedrock"}, ("https://bedrock-runtime.us-east-1.amazonaws.com",), "ok", "not asked"),
    ],
)
def test_models_are_asked_by_the_rules_of_the_agents_workers(
    monkeypatch: pytest.MonkeyPatch, profile: dict[str, str], allowed: tuple[str, ...], state: str, found: str
) -> None:
    for name in ("ANTHROPIC_API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    declared = {"name": "t", "models": {"m": {"model": "x", **profile}}, "agents": [{"name": "a", "prompt": "x"}]}
    [check] = check_models([Team.model_validate(declared)], allowed)
    assert check.state == state
    assert found in check.found


def test_a_machine_without_a_sandbox_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sandbox, "refusal", lambda self: "bwrap cannot start: install it")
    check = check_sandbox()
    assert (check.state, check.found) == ("warn", "bwrap cannot start")
    assert "install it" in check.todo
    monkeypatch.setattr(Sandbox, "refusal", lambda self: "")
    assert check_sandbox().state == "ok"


def test_check_sandbox_with_too_little_memory_names_the_setting() -> None:
    check = check_sandbox(read_budget(40, 1))
    assert (check.state, check.found) == ("warn", "the sandbox for code has too little memory")
    assert check.todo.startswith(f"only the tool {PYTHON} needs it: ")
    assert "ROBOCO_SANDBOX_MEMORY=40 gives each of 1 sandboxes" in check.todo
    assert "raise ROBOCO_SANDBOX_MEMORY" in check.todo


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 30}}, True),
        ({"Status": "Enabled", "Prefix": "work", "Expiration": {"Days": 30}}, True),
        ({"Status": "Enabled", "Filter": {"And": {"Prefix": "work/space/_open"}}, "Expiration": {"Days": 1}}, True),
        ({"Status": "Disabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 30}}, False),
        ({"Status": "Enabled", "Filter": {"Prefix": "logs/"}, "Expiration": {"Days": 30}}, False),
        ({"Status": "Enabled", "Filter": {"Prefix": ""}, "AbortIncompleteMultipartUpload": {}}, False),
        ({"Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"ExpiredObjectDeleteMarker": True}}, False),
    ],
)
def test_bucket_rules_that_delete_the_workspace_are_found(rule: dict[str, Any], expected: bool) -> None:
    assert deletes_old_objects(rule, "work/space") is expected
