"""compose.yaml against the schema of Compose's specification, and against what Roboco is."""

import importlib.resources
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import redis
import yaml

from roboco.adapters.local.process import LOOPBACK, free_port, start
from roboco.adapters.local.valkey import find_server
from tests.conftest import need
from tests.deployment.files import DEPLOY, ROOT, missing_modules, unknown_variables
from tests.stack import until

TEXT = (ROOT / "compose.yaml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
POOLS = ("coordinator", "agents", "tools")
OURS = (*POOLS, "flower")


def test_schema() -> None:
    schemas = importlib.resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    schema = json.loads((schemas / "compose-spec.json").read_text())
    errors = jsonschema.validators.validator_for(schema)(schema).iter_errors(COMPOSE)
    assert [f"{error.json_path}: {error.message}" for error in errors] == []


@pytest.mark.parametrize("name", OURS)
def test_our_services(name: str) -> None:
    """Their commands and variables exist, and they have no rights that they do not need."""
    service = SERVICES[name]
    assert missing_modules(service["command"].split()) == []
    assert missing_modules(service["healthcheck"]["test"]) == []
    assert unknown_variables(set(service["environment"])) == set()
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]


@pytest.mark.parametrize("pool", POOLS)
def test_health_of_a_pool_is_its_own(pool: str) -> None:
    """Asked for often, and cheaply: not by `roboco health`, which takes two seconds to begin."""
    assert SERVICES[pool]["healthcheck"]["test"] == ["CMD", "python", "-m", "workers.alive", pool]
    assert SERVICES[pool]["command"] == f"celery -A workers.{pool} worker"
    assert int(SERVICES[pool]["stop_grace_period"].removesuffix("s")) >= 60


def test_only_agents_have_the_models_key() -> None:
    assert [name for name in SERVICES if "OPENAI_API_KEY" in SERVICES[name].get("environment", {})] == ["agents"]


def test_no_password_has_a_default() -> None:
    """What is secret must be said, where it first stands with words that tell what to do."""
    secrets = r"REDIS_PASSWORD|AWS_ACCESS_KEY_ID|AWS_SECRET_ACCESS_KEY|FLOWER_BASIC_AUTH"
    used = re.findall(rf"\$\{{({secrets})(:\?[^}}]*)?", TEXT)
    assert {name for name, _ in used} == set(secrets.split("|"))
    assert [name for name, required in used if not required] == []
    assert {name for name, required in used if required != ":?"} == set(secrets.split("|"))
    assert "GRAFANA_PASSWORD" in str(SERVICES["grafana"]["entrypoint"])
    assert 'test -n "$$GF_SECURITY_ADMIN_PASSWORD"' in str(SERVICES["grafana"]["entrypoint"])


def test_what_is_published_is_so_on_this_machine_alone() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(published) == 3
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_what_services_need_is_there() -> None:
    """Other services, volumes, and files that are mounted."""
    for service in SERVICES.values():
        assert set(service.get("depends_on", {})) <= set(SERVICES)
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert (ROOT / source).exists() if source.startswith("./") else source in COMPOSE["volumes"], volume


def test_monitoring_is_started_by_its_profile_alone() -> None:
    assert [name for name, service in SERVICES.items() if "profiles" in service] == ["prometheus", "grafana"]


def test_redis_keeps_what_it_is_told() -> None:
    lines = (DEPLOY / "redis.conf").read_text().splitlines()
    assert {"maxmemory-policy noeviction", "appendonly yes", "appendfsync everysec"} <= set(lines)
    assert "/etc/redis/redis.conf" in SERVICES["redis"]["command"]
    assert "redis:/data" in SERVICES["redis"]["volumes"]


def test_image() -> None:
    """Nobody runs as root, and every file that is copied is there, and not ignored."""
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert [line for line in lines if line.startswith("USER")] == ["USER 10001:10001"]
    copied = [
        word for line in lines if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]
    ]
    assert copied == ["pyproject.toml", "README.md", "roboco", "workers"]
    assert all((ROOT / name).exists() and f"!{name}" in ignored for name in copied)


@pytest.mark.redis
def test_a_server_takes_the_configuration(tmp_path: Path) -> None:
    """As it stands but for the folder, and with a password as compose.yaml gives it one."""
    need(find_server)
    port = free_port()
    configuration = tmp_path / "redis.conf"
    configuration.write_text((DEPLOY / "redis.conf").read_text().replace("dir /data", f"dir {tmp_path}"))
    more = ["--requirepass", "secret", "--port", str(port), "--bind", LOOPBACK]
    server = start("redis", [*find_server(), str(configuration), *more], log=tmp_path / "redis.log")
    try:
        with redis.Redis(port=port, password="secret", decode_responses=True) as client:
            until(lambda: answers(client), 10, lambda: (tmp_path / "redis.log").read_text())
            for name, value in (("appendonly", "yes"), ("maxmemory-policy", "noeviction"), ("save", "")):
                assert client.config_get(name) == {name: value}
    finally:
        server.stop()


def answers(client: redis.Redis) -> bool:
    """Whether the server is there."""
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False
