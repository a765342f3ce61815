"""`roboco submit`: its options are those of `Orchestrator.run`, and a wrong one stores nothing."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from roboco import Orchestrator, RobocoError
from roboco.cli.main import commands

HOOK = "https://shop.example/hook"
SIGNATURE = {"task": "shop.heard", "args": [1]}


@pytest.fixture(autouse=True)
def _empty_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ROBOCO_WORKSPACE", "ROBOCO_REDIS_URL", "ROBOCO_TENANT", "ROBOCO_TEAMS_DIR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "team.yaml").write_text("name: echo\nagents: [{name: echo, prompt: Repeat it.}]")


def call(*options: str) -> Result:
    return CliRunner().invoke(commands, ["submit", "team.yaml", "Hello.", *options], standalone_mode=False)


def test_every_option_is_passed_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    received: dict[str, Any] = {}

    def run(self: Orchestrator, team: str, prompt: str, **options: Any) -> Any:
        received.update(options, tenant=self.settings.tenant, team=team, prompt=prompt)
        return SimpleNamespace(task_id="acme:order-17")

    monkeypatch.setattr(Orchestrator, "run", run)
    when = ["--eta", "2026-03-01T08:00:00+01:00", "--priority", "high", "--tenant", "acme", "--id", "order-17"]
    target = ["--webhook", HOOK, "--secret-env", "HOOK_SECRET", "--callback", "shop.heard", "--callback-queue", "shop"]
    on = ["--notify-on", "failed", "--notify-on", "user_turn", "--notify", json.dumps({"celery": SIGNATURE})]
    assert call(*when, *target, *on).output == "acme:order-17\n"
    assert {name: value for name, value in received.items() if value is not None} == {
        "team": "team.yaml",
        "prompt": "Hello.",
        "context": {},
        "eta": "2026-03-01T08:00:00+01:00",
        "priority": "high",
        "tenant": "acme",
        "task_id": "order-17",
        "conversation": False,
        "notify": [
            {"webhook": HOOK, "secret_env": "HOOK_SECRET", "on": ["failed", "user_turn"]},
            {
                "celery": {"task": "shop.heard", "args": [], "kwargs": {}, "options": {"queue": "shop"}},
                "on": ["failed", "user_turn"],
            },
            {"celery": SIGNATURE},
        ],
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--webhook", HOOK], "--secret-env VARIABLE belong together"),
        (["--callback-queue", "shop"], "there is none"),
        (["--notify-on", "failed"], "says its own 'on'"),
        (["--notify", "[1]"], "must be a JSON object"),
        (["--eta", "2026-03-01T08:00:00Z", "--countdown", "5"], "either eta or countdown"),
        (["--tenant", "acme", "--id", "other:order-17"], "is not one of tenant 'acme'"),
    ],
)
def test_a_wrong_option_is_refused_and_nothing_is_stored(tmp_path: Path, options: list[str], message: str) -> None:
    error = call(*options).exception
    assert isinstance(error, RobocoError | click.ClickException)
    assert message in (error.format_message() if isinstance(error, click.ClickException) else str(error))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "team.yaml"]
