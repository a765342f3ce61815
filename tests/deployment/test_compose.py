"""compose.yaml matches the schema of the Compose specification, and names existing parts of Roboco."""

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
from redis.backoff import NoBackoff
from redis.retry import Retry

from roboco.local.process import LOOPBACK, Server, free_port, start_server
from roboco.local.valkey import find_server
from tests.conftest import need
from tests.deployment.files import DEPLOY, ROOT, missing_modules, unknown_variables
from tests.support.stack import until

TEXT = (ROOT / "compose.yaml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
POOLS = ("coordinator", "agents", "tools")
ROBOCO_SERVICES = (*POOLS, "gateway", "flower")
REMEDY = "see deploy/README.md"


def test_compose_file_matches_the_schema() -> None:
    schemas = importlib.resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    schema = json.loads((schemas / "compose-spec.json").read_text())
    errors = jsonschema.validators.validator_for(schema)(schema).iter_errors(COMPOSE)
    assert [f"{error.json_path}: {error.message}" for error in errors] == []


def test_a_service_has_known_commands_and_no_excess_rights() -> None:
    """The modules and variables exist, and the service drops all capabilities."""
    for name in ROBOCO_SERVICES:
        service = SERVICES[name]
        assert missing_modules(service["command"].split()) == []
        assert missing_modules(service["healthcheck"]["test"]) == []
        assert unknown_variables(set(service["environment"])) == set()
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]


def test_a_pool_runs_its_module_and_its_health_check() -> None:
    """Compose runs the check often, so it is cheaper than `roboco health`, which takes two seconds to start."""
    for pool in POOLS:
        assert SERVICES[pool]["healthcheck"]["test"] == ["CMD", "python", "-m", "roboco.workers.healthcheck", pool]
        assert re.sub(" --concurrency=.*", "", SERVICES[pool]["command"]) == f"celery -A roboco.workers.{pool} worker"
        assert int(SERVICES[pool]["stop_grace_period"].removesuffix("s")) >= 60


def test_only_agents_have_the_models_key() -> None:
    assert [name for name in SERVICES if "OPENAI_API_KEY" in SERVICES[name].get("environment", {})] == ["agents"]


def test_no_password_has_a_default() -> None:
    """Compose refuses an unset secret. It may name any use of it, so each has a message with the remedy."""
    secrets = r"REDIS_PASSWORD_[A-Z]+|S3_[A-Z]+_KEY_[A-Z]+|FLOWER_BASIC_AUTH"
    used = re.findall(rf"\$\{{({secrets})(:\?[^}}]*|:-)?", TEXT)
    assert ":?}" not in TEXT
    # without a password the user does not exist
    optional = {f"REDIS_PASSWORD_{user}" for user in ("CLIENT", "FOLLOWER", "PRODUCER")}
    assert {name for name, required in used if required in ("", ":-")} == optional
    assert "GRAFANA_PASSWORD" in str(SERVICES["grafana"]["entrypoint"])
    assert 'test -n "$$GF_SECURITY_ADMIN_PASSWORD"' in str(SERVICES["grafana"]["entrypoint"])


def test_each_service_has_its_own_user_and_keys() -> None:
    """No service has the Redis user or S3 keys of another one, and Flower has no S3 keys."""
    for name in ROBOCO_SERVICES:
        environment = SERVICES[name]["environment"]
        password = f"${{REDIS_PASSWORD_{name.upper()}:?{REMEDY}}}"
        assert environment["ROBOCO_REDIS_URL"].startswith(f"redis://roboco-{name}:{password}@")
        keys = {key: value for key, value in environment.items() if key.startswith("AWS_")}
        upper = name.upper()
        ids = {
            "AWS_ACCESS_KEY_ID": f"${{S3_ACCESS_KEY_{upper}:?{REMEDY}}}",
            "AWS_SECRET_ACCESS_KEY": f"${{S3_SECRET_KEY_{upper}:?{REMEDY}}}",
        }
        assert keys == ({} if name == "flower" else ids)
        assert ("ROBOCO_SIGNING_KEYS" in environment) == (name != "flower")
        assert ("ROBOCO_WORKSPACE" in environment) == (name != "flower")


def test_every_image_is_pinned_or_must_be_named() -> None:
    """An image that is not built here has a digest, or is a variable for which deploy/pin-images.sh prints one."""
    printed = (DEPLOY / "pin-images.sh").read_text()
    images = {service["image"] for service in SERVICES.values()} - {"${ROBOCO_IMAGE:-roboco}"}
    images |= {service["build"]["args"]["PYTHON_IMAGE"] for service in SERVICES.values() if "build" in service}
    for image in images:
        named = re.fullmatch(r"\$\{([A-Z]+_IMAGE)(:\?.*|:-[a-z-]+\.invalid/not-set)\}", image)
        assert named or re.search(r"@sha256:[0-9a-f]{64}$", image), image
        assert named is None or f"\n{named[1]} " in printed
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    assert set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)) == {"${PYTHON_IMAGE}"}
    assert "\nARG PYTHON_IMAGE\n" in dockerfile


def test_every_service_has_limits_and_a_network_without_others() -> None:
    """Only Redis, the store and Prometheus are in a network with several services of Roboco."""
    for name, service in SERVICES.items():
        if service.get("restart") == "no":
            continue
        assert {"mem_limit", "pids_limit"} <= set(service), name
    for network, options in COMPOSE["networks"].items():
        members = {name for name, service in SERVICES.items() if network in service.get("networks", ())}
        if options.get("internal"):
            assert members - {"redis", "s3", "prometheus"} == {network}
    assert {name for name in POOLS if set(SERVICES[name]["networks"]) - {name}} == set(POOLS)


def test_packages_are_installed_with_hashes() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    commands = [part for line in lines for part in line.split("&&") if re.search("pip .*(install|wheel) ", part)]
    assert len(commands) == 4
    assert [one for one in commands if "--require-hashes" not in one and "--no-deps" not in one] == []


def test_ports_are_published_on_loopback_alone() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(published) == 4
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_redis_persists_every_write_and_evicts_nothing() -> None:
    lines = (DEPLOY / "redis.conf").read_text().splitlines()
    assert {"maxmemory-policy noeviction", "appendonly yes", "appendfsync everysec"} <= set(lines)
    assert "/etc/redis/redis.conf" in SERVICES["redis"]["command"]
    assert "redis:/data" in SERVICES["redis"]["volumes"]


PASSWORDS = {f"REDIS_PASSWORD_{user}": f"{user.lower()}0123456789abcdef" for user in ("COORDINATOR", "PROBE", "ADMIN")}


def start_redis(tmp_path: Path, port: int, passwords: dict[str, str]) -> Server:
    """Start a server as compose.yaml does, in another folder and at another port."""
    need(find_server)
    configuration = tmp_path / "redis.conf"
    text = (DEPLOY / "redis.conf").read_text().replace("dir /data", f"dir {tmp_path}")
    configuration.write_text(f"{text}\nport {port}\nbind {LOOPBACK}\n")
    (tmp_path / "redis-server").unlink(missing_ok=True)
    (tmp_path / "redis-server").symlink_to(find_server()[0])
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "REDIS_USERS_MADE": str(tmp_path / "made.acl"),
    } | passwords
    command = ["sh", str(DEPLOY / "redis-start.sh"), str(configuration), str(DEPLOY / "redis-users.acl")]
    return start_server("redis", command, env=environment, log=tmp_path / "redis.log")


@pytest.mark.redis
def test_redis_starts_with_the_configuration_and_users(tmp_path: Path) -> None:
    """Users without a password do not exist, and the file that the server reads has digests alone."""
    port = free_port()
    server = start_redis(tmp_path, port, PASSWORDS)
    try:
        with redis.Redis(port=port, username="roboco-admin", password=PASSWORDS["REDIS_PASSWORD_ADMIN"]) as client:
            until(lambda: is_reachable(client), 60, lambda: (tmp_path / "redis.log").read_text())
            for name, value in ((b"appendonly", b"yes"), (b"maxmemory-policy", b"noeviction"), (b"save", b"")):
                assert client.execute_command("CONFIG", "GET", name) in ({name: value}, [name, value])
            assert set(client.acl_users()) == {"default", "roboco-coordinator", "roboco-probe", "roboco-admin"}
            default: Any = client.acl_getuser("default")
            assert "off" in default["flags"]
            assert default["passwords"] == []
            assert "+@all" in default["categories"]
            assert "~*" in default["keys"]
        with redis.Redis(port=port) as anonymous, pytest.raises(redis.AuthenticationError):
            anonymous.ping()
    finally:
        server.stop()
    made = tmp_path / "made.acl"
    assert made.stat().st_mode & 0o077 == 0
    assert not any(password in made.read_text() for password in PASSWORDS.values())


@pytest.mark.redis
def test_a_restart_of_redis_replays_transactions_and_scripts(tmp_path: Path) -> None:
    """The append-only file holds both as MULTI and EXEC, which the default user has to be allowed to replay."""
    port = free_port()
    address: dict[str, Any] = {"port": port, "username": "roboco-admin", "password": PASSWORDS["REDIS_PASSWORD_ADMIN"]}
    with redis.Redis(**address, retry=Retry(NoBackoff(), 0)) as client:
        for count in (0, 4):
            server = start_redis(tmp_path, port, PASSWORDS)
            try:
                until(lambda: is_reachable(client), 60, lambda: (tmp_path / "redis.log").read_text())
                assert client.dbsize() == count
                client.pipeline(transaction=True).set("t1", 1).set("t2", 2).execute()
                client.eval("redis.call('SET', KEYS[1], 1); redis.call('SET', KEYS[2], 2)", 2, "s1", "s2")
            finally:
                server.stop()
    assert "no permission" not in (tmp_path / "redis.log").read_text().lower()


@pytest.mark.parametrize(
    ("password", "message"), [("short", "at least 16"), ("with a space and ~* +@all", "letters and digits")]
)
def test_redis_does_not_start_with_a_weak_password(tmp_path: Path, password: str, message: str) -> None:
    users, made = str(DEPLOY / "redis-users.acl"), str(tmp_path / "made.acl")
    command = ["sh", str(DEPLOY / "redis-start.sh"), "redis.conf", users]
    environment = os.environ | {"REDIS_USERS_MADE": made, "REDIS_PASSWORD_COORDINATOR": password}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 64
    assert message in ran.stderr
    assert password not in ran.stderr


def is_reachable(client: redis.Redis) -> bool:
    """Return True if the server responds."""
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False
