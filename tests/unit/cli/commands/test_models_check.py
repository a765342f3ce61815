"""roboco models check: each profile is called for real, against a strict scripted server."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from roboco.cli.main import commands
from tests.support.servers.dialects import DIALECTS
from tests.support.servers.model_server import ModelServer, Reply, Request

UNREACHABLE = "http://127.0.0.1:9/v1"
STEPS = ["text", "tool call", "limit", "interrupt"]


def respond(request: Request) -> Reply:
    if request.tool_results:
        return Reply(text="It is sunny.")
    if request.tools:
        return Reply(tool_calls=[("current_weather", {"city": "Paris"})])
    if "Count" not in request.last_user:
        return Reply(text="ready")
    most = request.body.get("max_tokens") or request.body.get("max_completion_tokens")
    words = [f"{number} " for number in range(300)]
    return Reply(chunks=words[:most], interval=0.01, finish_reason="length" if most else None)


@pytest.fixture(autouse=True)
def restored_log_level(caplog: pytest.LogCaptureFixture) -> None:
    """The command silences the log of its process. After the test, the level is as before."""
    caplog.set_level(logging.NOTSET, "roboco.model")


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that writes a team with one profile, and returns its path."""
    monkeypatch.setenv("ROBOCO_WORKSPACE", tmp_path.as_uri())
    monkeypatch.setenv("TEST_KEY", "sk-secret")

    def write(base_url: str, **fields: Any) -> str:
        profile = {"model": "gpt-4o-mini", "base_url": base_url, "api_key_env": "TEST_KEY", **fields}
        monkeypatch.setenv("ROBOCO_ALLOWLIST", json.dumps({"model_servers": [f"TEST_KEY@{base_url}"]}))
        path = tmp_path / "desk.yaml"
        path.write_text(
            yaml.safe_dump({"name": "desk", "models": {"m": profile}, "agents": [{"name": "a", "prompt": "x"}]})
        )
        return str(path)

    return write


def call(*arguments: str) -> Result:
    return CliRunner().invoke(commands, arguments, standalone_mode=False)


def check(*arguments: str) -> dict[str, Any]:
    result = call("models", "check", *arguments, "--json")
    found: dict[str, Any] = json.loads(result.stdout)
    assert result.return_value == (0 if found["ok"] else 1)
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_works(dialect: str, team: Any) -> None:
    with ModelServer(dialect=dialect) as server:
        server.script(respond)
        address = server.base_url + ("?api-version=2024-10-21" if dialect == "azure" else "")
        found = check(team(address, price_in=1, price_out=2))
    [profile] = found["profiles"]
    reported = "warn" if dialect == "no_stream_options" else "ok"  # no usage: it is an estimate
    states = [(one["name"], one["state"]) for one in profile["checks"]]
    assert states == list(zip(STEPS, [reported, "ok", "ok", "ok"], strict=True)), profile
    assert profile["cost"] > 0 < profile["usage"]["tokens_in"]
    assert "in the middle of the reply" in profile["checks"][-1]["found"]


def test_learned_parameters_are_settings_to_write_and_then_nothing_is_learned(team: Any) -> None:
    with ModelServer(dialect="openai") as server:
        server.script(respond)
        fields = {"model": "gpt-5", "temperature": 0.5, "price_in": 1}
        [profile] = check(team(server.base_url, **fields))["profiles"]
        assert "sends no 'temperature'" in profile["learned"]
        assert profile["settings"] == {"omit": ["temperature"]}
        shown = call("models", "check", team(server.base_url, **fields)).stdout
        assert "learned: this process sends no 'temperature'" in shown
        assert "write into the profile: omit: [temperature]" in shown
        [again] = check(team(server.base_url, **fields, **profile["settings"]))["profiles"]
        assert again["settings"] == {}
        assert "sends no 'temperature'" not in again["learned"]


def test_a_model_that_calls_no_tool_gets_the_remedy(team: Any) -> None:
    with ModelServer() as server:
        server.script(lambda request: Reply(text="I cannot.") if request.tools else respond(request))
        [profile] = check(team(server.base_url))["profiles"]
    states = {one["name"]: one["state"] for one in profile["checks"]}
    assert states == {"text": "ok", "tool call": "fail", "limit": "ok", "interrupt": "ok"}
    assert profile["settings"]["tool_calls"] == "json"


def test_a_server_that_ignores_the_maximum_is_named(team: Any) -> None:
    with ModelServer() as server:
        server.script(
            lambda request: (
                Reply(chunks=["word "] * 300, interval=0.01) if "Count" in request.last_user else respond(request)
            )
        )
        [profile] = check(team(server.base_url))["profiles"]
    assert [one["state"] for one in profile["checks"]] == ["ok", "ok", "warn", "ok"]
    assert "ignores the maximum" in profile["checks"][2]["found"]


def test_nothing_else_is_tried_after_a_refused_key_and_the_key_is_not_shown(team: Any) -> None:
    with ModelServer() as server:
        server.script(lambda request: Reply(status=401, text="Incorrect API key provided: sk-secret"))
        path = team(server.base_url)
        result = call("models", "check", path)
    assert result.return_value == 1
    assert "auth: model 'gpt-4o-mini' refuses the key in TEST_KEY" in result.stdout
    assert "sk-secret" not in result.output
    assert "tool call" not in result.stdout


def test_a_missing_key_names_its_variable(team: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = team(UNREACHABLE)
    text = Path(path).read_text().replace(f"    base_url: {UNREACHABLE}\n", "")
    Path(path).write_text(text)
    monkeypatch.setenv("ROBOCO_ALLOWLIST", '{"model_servers": ["TEST_KEY"]}')
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("TEST_KEY")
    [profile] = check(path)["profiles"]
    assert "no_key" in profile["checks"][0]["found"]
    assert "TEST_KEY is not set" in profile["checks"][0]["found"]


def test_an_address_that_is_not_allowed_names_the_setting(team: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = team(UNREACHABLE)
    monkeypatch.delenv("ROBOCO_ALLOWLIST")
    [profile] = check(path)["profiles"]
    assert "model_servers of ROBOCO_ALLOWLIST" in json.dumps(profile["checks"][0])


def test_an_unreachable_server_is_named_in_both_commands(team: Any) -> None:
    path = team(UNREACHABLE)
    [profile] = check(path)["profiles"]
    assert profile["checks"][0]["found"].startswith("connection: model 'gpt-4o-mini' cannot be reached")
    assert profile["cost"] is None
    checks = json.loads(call("doctor", "--models", path, "--json").stdout)["checks"]
    assert [one["state"] for one in checks if one["name"] == "model m, text"] == ["fail"]
