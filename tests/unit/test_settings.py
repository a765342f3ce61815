"""Settings: parsed from the environment, with all errors in one exception and no password in any text."""

import re
from pathlib import Path

import pytest

from roboco.allowlist import Allowlist
from roboco.errors import UsageError
from roboco.gateway.settings import (
    DEFAULT_LIMITS,
    DEFAULT_TENANT_LIMITS,
    GatewaySettings,
    load_gateway_settings,
)
from roboco.removed_settings import REMOVED
from roboco.settings import Settings, load_settings, variable_of
from tests.support.stack import ROOT


def test_each_setting_is_an_environment_variable() -> None:
    environment = {
        "ROBOCO_REDIS_URL": "redis://r:1/2",
        "ROBOCO_BROKER_URL": "redis://b:1/2",
        "ROBOCO_WORKSPACE": "s3://bucket/prefix",
        "ROBOCO_S3_ENDPOINT_URL": "http://127.0.0.1:9000",
        "ROBOCO_S3_TIMEOUT": "5",
        "ROBOCO_TEAMS_DIR": "/teams",
        "ROBOCO_TOOL_MODULES": "shop.search, shop.mail,",
        "ROBOCO_PREFIX": "my-shop",
        "ROBOCO_LEASE_SECONDS": "2.5",
        "ROBOCO_MAX_ATTEMPTS": "7",
        "ROBOCO_RETENTION": "60",
        "ROBOCO_INDEX_RETENTION": "7.5",
        "ROBOCO_AGENTS_CONCURRENCY": "20",
        "ROBOCO_MAX_QUEUED": "500",
        "ROBOCO_TENANT": "acme",
        "ROBOCO_CALLER": "service:shop",
        "ROBOCO_AUDIT_LOG": "/var/log/roboco-audit.jsonl",
        "ROBOCO_DRAIN_TIMEOUT": "60",
        "ROBOCO_RETENTION_RULES": "tenant=acme status=failed delete=30d, tenant=legal keep",
        "ROBOCO_TENANT_BUDGETS": "acme=20/5000000, *=/1000",
        "ROBOCO_ALLOWLIST": '{"webhooks":["https://hooks.example/","10.0.0.0/8"],"callbacks":["shop.paid@money"]}',
        "ROBOCO_MODEL_LIMITS": "gpt-4o-mini=500/200000, m@http://127.0.0.1:8080/v1=/9",
        "ROBOCO_MCP_SANDBOX": "offline",
        "ROBOCO_MCP_TOKENS": "shop.tokens:get_token",
        "ROBOCO_CREDENTIALS": "shop.credentials:find",
        "ROBOCO_CALLBACK_BROKER_URL": "redis://shop:1/0",
        "ROBOCO_SANDBOX_MEMORY": "1500",
        "ROBOCO_HEALTH_DIR": "/health",
        "ROBOCO_EMBEDDINGS_MODEL": "small@http://e:1/v1",
        "ROBOCO_SIGNING_KEYS": f"{'n' * 32},{'o' * 32}",
        "ROBOCO_METRICS_PORT": "9808",
        "ROBOCO_METRICS_ADDRESS": "127.0.0.1",
        "ROBOCO_LOG_FORMAT": "json",
        "PATH": "/bin",
        "OPENAI_API_KEY": "secret",
    }
    settings = load_settings(environment)
    assert settings.broker == "redis://b:1/2"
    assert settings.tool_modules == ("shop.search", "shop.mail")
    assert settings.allowlist.webhooks == ("https://hooks.example/", "10.0.0.0/8")
    assert settings.model_limits == ("gpt-4o-mini=500/200000", "m@http://127.0.0.1:8080/v1=/9")
    assert str(settings.teams_dir) == "/teams"
    assert (settings.lease_seconds, settings.max_attempts, settings.retention) == (2.5, 7, 60)
    assert settings.sandbox_memory == 1500
    assert set(type(settings).model_fields) == {
        name.removeprefix("ROBOCO_").lower() for name in environment if name.startswith("ROBOCO_")
    }
    assert load_settings(settings.environment()) == settings
    assert "secret" not in str(settings.environment())


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("ROBOCO_LEASE_SECONDS", "soon", "ROBOCO_LEASE_SECONDS='soon': "),
        ("ROBOCO_LEASE_SECONDS", "inf", "ROBOCO_LEASE_SECONDS='inf': "),
        ("ROBOCO_MAX_ATTEMPTS", "1.5", "ROBOCO_MAX_ATTEMPTS='1.5': "),
        ("ROBOCO_PREFIX", "a{b}", "ROBOCO_PREFIX='a{b}': "),
        ("ROBOCO_REDDIS_URL", "x", "ROBOCO_REDDIS_URL is not a setting; similar: ROBOCO_REDIS_URL"),
    ],
)
def test_an_invalid_variable_is_named(name: str, value: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        load_settings({name: value})
    assert str(raised.value).startswith(message)


def test_a_removed_variable_names_what_takes_its_place() -> None:
    with pytest.raises(UsageError, match=r"^ROBOCO_ALLOWED_MCP_ENV is no setting any more: list .* mcp_env .*"):
        load_settings({"ROBOCO_ALLOWED_MCP_ENV": "KEY"})
    with pytest.raises(UsageError, match=r"^ROBOCO_GATEWAY_MAX_STEPS is no .*: write max_steps=NUMBER in .*_LIMITS$"):
        load_gateway_settings({"ROBOCO_GATEWAY_MAX_STEPS": "5"})
    settings = {variable_of(name) for name in Settings.model_fields}
    settings |= {f"ROBOCO_GATEWAY_{name.upper()}" for name in GatewaySettings.model_fields}
    assert not settings & set(REMOVED)
    remedies = " ".join(REMOVED.values())
    assert set(re.findall(r"ROBOCO_[A-Z_]+", remedies)) <= settings
    assert set(re.findall(r"under (\w+)", remedies)) <= set(Allowlist.model_fields)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("webhook: []", "'webhook' is no key; keys: model_servers, mcp_servers, "),
        ("webhooks: https://h/", "'webhooks' must be a list of texts"),
        ("webhooks: [a, 5]", "entry 2 of 'webhooks' must be a text: put it in quotes"),
        ("[a]", "must be a mapping with the keys model_servers, "),
        (f"# {'x' * 65_536}", "cannot be read: it has more than 65536 bytes"),
        (None, "cannot be read: [Errno 2] No such file or directory"),
    ],
)
def test_a_mistake_in_the_allowlist_names_file_and_key(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "allow.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError) as raised:
        load_settings({"ROBOCO_ALLOWLIST": str(path)})
    assert str(raised.value).startswith(f"ROBOCO_ALLOWLIST of '{path}': {message}")


def test_child_processes_get_the_entries_of_the_allowlist(tmp_path: Path) -> None:
    path = tmp_path / "allow.yaml"
    path.write_text("# none yet")
    assert load_settings({"ROBOCO_ALLOWLIST": str(path)}) == Settings()
    path.write_text("mcp_servers:\n  - files --only=a,b\n  - https://mcp.example/\n")
    settings = load_settings({"ROBOCO_ALLOWLIST": str(path)})
    assert settings.allowlist == Allowlist(mcp_servers=("files --only=a,b", "https://mcp.example/"))
    path.unlink()
    assert load_settings(settings.environment()) == settings


def test_limits_of_the_gateway_change_the_defaults() -> None:
    settings = load_gateway_settings(
        {"ROBOCO_GATEWAY_LIMITS": "open_tasks=5, max_steps=0", "ROBOCO_GATEWAY_TENANT_LIMITS": "cost_per_day=2.5"}
    )
    assert settings.limits == DEFAULT_LIMITS.model_copy(update={"open_tasks": 5, "max_steps": None})
    assert settings.tenant_limits == DEFAULT_TENANT_LIMITS.model_copy(update={"cost_per_day": 2.5})
    for name, value, message in (
        ("LIMITS", "steps=5", "LIMITS must hold NAME=VALUE with names of requests_per_minute, "),
        ("LIMITS", "open_tasks=many", "LIMITS='many': "),
        ("TENANT_LIMITS", "max_steps=5", "TENANT_LIMITS must hold NAME=VALUE with names of requests_per_minute, "),
        (
            "OIDC_CLAIMS",
            "team=groups",
            "OIDC_CLAIMS must hold NAME=VALUE with names of tenant, scope, teams, utility_model (found ",
        ),
    ):
        with pytest.raises(UsageError) as raised:
            load_gateway_settings({f"ROBOCO_GATEWAY_{name}": value})
        assert str(raised.value).startswith(f"ROBOCO_GATEWAY_{message}")


def test_an_unknown_variable_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^ROBOCO_XYZZY_42 is not a setting; `roboco docs settings` lists all$"):
        load_settings({"ROBOCO_XYZZY_42": "1"})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("ROBOCO_REDIS_URL", "redis://:can/ary@h:6379/0", "ROBOCO_REDIS_URL is not an address: write a '/'"),
        (
            "ROBOCO_BROKER_URL",
            "redis://a/0;redis://:can#ary@h:6379/0",
            "ROBOCO_BROKER_URL is not an address: write a '/'",
        ),
        (
            "ROBOCO_CALLBACK_BROKER_URL",
            "redis://:can?ary@h:6379x/0",
            "ROBOCO_CALLBACK_BROKER_URL is not an address: write",
        ),
        ("ROBOCO_SIGNING_KEYS", f"canary,{'k' * 32}", "ROBOCO_SIGNING_KEYS holds a key of fewer than 32 characters"),
        ("ROBOCO_WORKSPACE", "s3://key:canary@bucket/prefix", "ROBOCO_WORKSPACE holds a user or password"),
        ("ROBOCO_S3_ENDPOINT_URL", "http://key:canary@h:9000", "ROBOCO_S3_ENDPOINT_URL holds a user or password"),
        ("ROBOCO_EMBEDDINGS_MODEL", "m@http://u:canary@h/v1", "ROBOCO_EMBEDDINGS_MODEL holds a user or password"),
    ],
)
def test_errors_hide_passwords(name: str, value: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        load_settings({name: value})
    assert str(raised.value).startswith(message)
    for text in (str(raised.value), repr(raised.value.__cause__), str(raised.value.__cause__)):
        assert "can" not in text
        assert "ary" not in text


def test_repr_hides_passwords() -> None:
    settings = Settings(redis_url="redis://user:canary@h:1/0", broker_url="amqp://:canary@h;amqp://:can@ary@i")
    for text in (repr(settings), str(settings), f"{settings}", repr({"settings": settings})):
        assert "canary" not in text
        assert "ary@i" not in text
    assert "redis_url='redis://***@h:1/0'" in repr(settings)
    lists = Settings(
        allowlist=Allowlist(
            model_servers=("KEY@https://h/v1",),
            mcp_servers=(
                "python -m shop --url=https://me:canary@h/",
                "https://me:canary@h/mcp?a=1&password=canary",
            ),
        ),
        callback_broker_url="rediss://h:1/0?ssl_keyfile=/me.pem&ssl_password=canary&db=2",
    )
    assert "canary" not in repr(lists)
    assert "model_servers=('KEY@https://h/v1',)" in repr(lists)
    assert "?ssl_keyfile=/me.pem&ssl_password=***&db=2" in repr(lists)
    assert "kkk" not in repr(Settings(signing_keys=("k" * 32,)))
    assert settings.environment()["ROBOCO_REDIS_URL"] == "redis://user:canary@h:1/0"


def test_the_settings_of_a_new_project_are_settings() -> None:
    text = (ROOT / "roboco" / "examples" / "project" / "settings.env").read_text()
    lines = [line.lstrip("# ") for line in text.splitlines()]
    exported = dict(line.removeprefix("export ").split("=", 1) for line in lines if line.startswith("export "))
    settings = load_settings({name: value for name, value in exported.items() if name.startswith("ROBOCO_")})
    assert settings.tool_modules == ("team_tools",)
    assert settings.workspace == "s3://bucket/prefix"
