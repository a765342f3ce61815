"""`roboco keys`: a key is printed once, listed without its secret, and revoked by its id."""

import json
import logging
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from roboco import UsageError
from roboco.cli.main import commands
from roboco.domain.access_key import AccessKey, CallerLimits, parse_key
from roboco.gateway.authentication import principal_of


@pytest.fixture(autouse=True)
def _workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBOCO_WORKSPACE", f"file://{tmp_path}/workspace")
    monkeypatch.setenv("ROBOCO_REDIS_URL", "redis://127.0.0.1:1/0")  # keys need no Redis


def call(*arguments: str) -> Result:
    """Run `roboco keys` with these arguments."""
    return CliRunner().invoke(commands, ["keys", *arguments], standalone_mode=False)


def test_a_key_is_created_listed_and_revoked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert call("list").stdout == "no keys; `roboco keys create NAME` makes one\n"
    options = [
        "--tenant",
        "acme",
        "--scope",
        "read",
        "--team",
        "desk",
        "--limit",
        "cost_per_day=1.5",
        "--utility-model",
        "small",
    ]
    with caplog.at_level(logging.INFO, "roboco.audit"):
        created = call("create", "shop", *options, "--expires", "90d")
    text = created.stdout.strip()
    parts = parse_key(text)
    assert parts is not None
    assert "keep it now" in created.stderr
    assert json.loads(caplog.messages[0])["key"] == parts.id
    stored = "".join(file.read_text() for file in tmp_path.rglob("*.json"))
    assert parts.secret not in stored + caplog.text
    [listed] = json.loads(call("list", "--json").stdout)
    assert listed["id"] == parts.id
    assert listed["limits"]["cost_per_day"] == 1.5
    assert principal_of(AccessKey(**listed, digest="0" * 64), CallerLimits()).utility_model == "small"
    assert listed["status"] == "valid"
    assert "digest" not in listed
    assert f"{parts.id}  shop  acme    read" in call("list").stdout
    assert call("revoke", parts.id).stdout == f"{parts.id} is revoked (shop)\n"
    assert call("revoke", parts.id).exception is None
    assert json.loads(call("list", "--json").stdout)[0]["status"] == "revoked"


@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "x", "--expires", "soon"),
        ("create", "x", "--limit", "speed=1"),
        ("create", "x", "--limit", "max_tokens=many"),
        ("create", "x", "--utility-model", "A B"),
        ("revoke", "../../x"),
    ],
    ids=str,
)
def test_mistakes_are_refused(arguments: tuple[str, ...]) -> None:
    assert call(*arguments).exception is not None
    assert json.loads(call("list", "--json").stdout) == []


def test_keys_are_the_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBOCO_TENANT", "acme")
    for arguments in (("list",), ("create", "x"), ("revoke", "aaaaaaaaaaaa")):
        error = call(*arguments).exception
        assert isinstance(error, UsageError)
        assert error.code == "forbidden"
