"""compose.yaml against the schema of Compose's specification, and against what Roboco is."""

import importlib.resources
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import redis
import yaml

from roboco.adapters.local.process import LOOPBACK, Server, free_port, start_server
from roboco.adapters.local.valkey import find_server
from tests.conftest import need
from tests.deployment.files import DEPLOY, ROOT, missing_modules, unknown_variables
from tests.support.stack import until

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
    assert SERVICES[pool]["healthcheck"]["test"] == ["CMD", "python", "-m", "roboco.workers.healthcheck", pool]
    assert SERVICES[pool]["command"] == f"celery -A roboco.workers.{pool} worker"
    assert int(SERVICES[pool]["stop_grace_period"].removesuffix("s")) >= 60


def test_only_agents_have_the_models_key() -> None:
    assert [name for name in SERVICES if "OPENAI_API_KEY" in SERVICES[name].get("environment", {})] == ["agents"]


def test_no_password_has_a_default() -> None:
    """What is secret must be said, where it first stands with words that tell what to do."""
    secrets = r"REDIS_PASSWORD_[A-Z]+|S3_[A-Z]+_KEY_[A-Z]+|MINIO_ROOT_[A-Z]+|FLOWER_BASIC_AUTH"
    used = re.findall(rf"\$\{{({secrets})(:\?[^}}]*|:-)?", TEXT)
    optional = {f"REDIS_PASSWORD_{user}" for user in ("CLIENT", "PRODUCER", "FOLLOWER")}  # without one there is no user
    assert {name for name, required in used if required in ("", ":-")} == optional
    assert {name for name, required in used if required not in ("", ":?")} == {name for name, _ in used}
    assert "GRAFANA_PASSWORD" in str(SERVICES["grafana"]["entrypoint"])
    assert 'test -n "$$GF_SECURITY_ADMIN_PASSWORD"' in str(SERVICES["grafana"]["entrypoint"])


@pytest.mark.parametrize("name", OURS)
def test_each_service_has_its_own_user_and_keys(name: str) -> None:
    """No service can be another one of Redis or S3, and Flower has no keys at all."""
    environment = SERVICES[name]["environment"]
    assert environment["ROBOCO_REDIS_URL"].startswith(f"redis://roboco-{name}:${{REDIS_PASSWORD_{name.upper()}:?}}@")
    keys = {key: value for key, value in environment.items() if key.startswith("AWS_")}
    upper = name.upper()
    ids = {
        "AWS_ACCESS_KEY_ID": f"${{S3_ACCESS_KEY_{upper}:?}}",
        "AWS_SECRET_ACCESS_KEY": f"${{S3_SECRET_KEY_{upper}:?}}",
    }
    assert keys == ({} if name == "flower" else ids)
    assert ("ROBOCO_SIGNING_KEYS" in environment) == (name in POOLS)
    assert ("ROBOCO_WORKSPACE" in environment) == (name in POOLS)


def test_only_redis_and_its_user_have_a_password_of_redis() -> None:
    for password in set(re.findall(r"REDIS_PASSWORD_[A-Z]+", TEXT)):
        holders = {name for name, service in SERVICES.items() if password in str(service)}
        user = password.removeprefix("REDIS_PASSWORD_").lower()
        assert holders == ({"redis", user} if user in OURS else {"redis"})


def test_every_image_is_pinned_or_must_be_named() -> None:
    """What is not built here has a digest, or comes from a variable for which deploy/pin-images.sh prints one."""
    printed = (DEPLOY / "pin-images.sh").read_text()
    images = {service["image"] for service in SERVICES.values()} - {"roboco"}
    images |= {service["build"]["args"]["PYTHON_IMAGE"] for service in SERVICES.values() if "build" in service}
    for image in images:
        named = re.fullmatch(r"\$\{([A-Z]+_IMAGE)(:\?.*|:-[a-z-]+\.invalid/not-set)\}", image)
        assert named or re.search(r"@sha256:[0-9a-f]{64}$", image), image
        assert named is None or f"\n{named[1]} " in printed
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    assert set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)) == {"${PYTHON_IMAGE}"}
    assert "\nARG PYTHON_IMAGE\n" in dockerfile


def test_what_is_installed_has_hashes() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    commands = [part for line in lines for part in line.split("&&") if re.search("pip (install|wheel)", part)]
    assert len(commands) == 4
    assert [one for one in commands if "--require-hashes" not in one and "--no-deps" not in one] == []


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
    locks = ["deploy/build.lock", "deploy/requirements.lock"]
    assert sorted(copied) == sorted(["pyproject.toml", "README.md", "roboco", "workers", *locks])
    assert all((ROOT / name).exists() and f"!{name}" in ignored for name in copied)


PASSWORDS = {f"REDIS_PASSWORD_{user}": f"{user.lower()}0123456789abcdef" for user in ("COORDINATOR", "PROBE", "ADMIN")}


def started(tmp_path: Path, port: int, passwords: dict[str, str]) -> Server:
    """A server as compose.yaml starts it, but for its folder and port."""
    need(find_server)
    configuration = tmp_path / "redis.conf"
    text = (DEPLOY / "redis.conf").read_text().replace("dir /data", f"dir {tmp_path}")
    configuration.write_text(f"{text}\nport {port}\nbind {LOOPBACK}\n")
    (tmp_path / "redis-server").symlink_to(find_server()[0])
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "REDIS_USERS_MADE": str(tmp_path / "made.acl"),
    } | passwords
    command = ["sh", str(DEPLOY / "redis-start.sh"), str(configuration), str(DEPLOY / "redis-users.acl")]
    return start_server("redis", command, env=environment, log=tmp_path / "redis.log")


@pytest.mark.redis
def test_a_server_takes_the_configuration_and_the_users(tmp_path: Path) -> None:
    """Users without a password are left out, and the file that the server reads holds digests alone."""
    port = free_port()
    server = started(tmp_path, port, PASSWORDS)
    try:
        with redis.Redis(port=port, username="roboco-admin", password=PASSWORDS["REDIS_PASSWORD_ADMIN"]) as client:
            until(lambda: answers(client), 10, lambda: (tmp_path / "redis.log").read_text())
            for name, value in ((b"appendonly", b"yes"), (b"maxmemory-policy", b"noeviction"), (b"save", b"")):
                assert client.execute_command("CONFIG", "GET", name) in ({name: value}, [name, value])
            assert set(client.acl_users()) == {"default", "roboco-coordinator", "roboco-probe", "roboco-admin"}
        with redis.Redis(port=port) as nobody, pytest.raises(redis.AuthenticationError):
            nobody.ping()
    finally:
        server.stop()
    made = tmp_path / "made.acl"
    assert made.stat().st_mode & 0o077 == 0
    assert not any(password in made.read_text() for password in PASSWORDS.values())


@pytest.mark.parametrize(
    ("password", "message"), [("short", "at least 16"), ("with a space and ~* +@all", "letters and digits")]
)
def test_a_password_that_is_short_or_no_word_starts_nothing(tmp_path: Path, password: str, message: str) -> None:
    users, made = str(DEPLOY / "redis-users.acl"), str(tmp_path / "made.acl")
    command = ["sh", str(DEPLOY / "redis-start.sh"), "redis.conf", users]
    environment = os.environ | {"REDIS_USERS_MADE": made, "REDIS_PASSWORD_COORDINATOR": password}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 64
    assert message in ran.stderr
    assert password not in ran.stderr


def answers(client: redis.Redis) -> bool:
    """Whether the server is there."""
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False
