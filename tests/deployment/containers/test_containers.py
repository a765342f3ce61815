"""The image and `compose.yaml` in a Docker engine: from nothing to a finished task, separation, faults between hosts.

`python -m tests.deployment.containers.faults` runs all faults. ROBOCO_ROOM names a folder that keeps engine and images.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from tests.deployment.containers import faults
from tests.deployment.containers.deployment import POOLS, Deployment, variables
from tests.deployment.containers.room import Room, missing
from tests.deployment.containers.shop import TEAM
from tests.deployment.files import ROOT
from tests.deployment.test_kubernetes import OVERLAYS, VERSIONS

pytestmark = [pytest.mark.slow, pytest.mark.workers]

SERVICES = (*POOLS, "gateway", "flower", "redis", "s3")
CONNECT = """
import socket, sys
for address in sys.argv[1:]:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 2).close()
    except OSError:
        continue
    print(address)
"""
"""A program that prints the addresses that accept a connection."""
S3 = """
import boto3, sys
from botocore.exceptions import ClientError
s3 = boto3.client("s3", endpoint_url="http://s3:9000", region_name="us-east-1")
def attempt(name, action):
    try:
        action()
    except ClientError as error:
        assert error.response["Error"]["Code"] == "AccessDenied", error
    else:
        print(name)
put = lambda key: s3.put_object(Bucket="roboco", Key=key, Body=b"x")
attempt("task", lambda: put("tasks/probe"))
attempt("write key", lambda: put("tasks/_keys/probe"))
attempt("other folder", lambda: put("others/probe"))
attempt("create bucket", lambda: s3.create_bucket(Bucket="probe"))
attempt("delete bucket", lambda: s3.delete_bucket(Bucket="roboco"))
suspended = {"Status": "Suspended"}
attempt("versioning", lambda: s3.put_bucket_versioning(Bucket="roboco", VersioningConfiguration=suspended))
"""
"""A program that prints the actions which the store allows with the keys of its environment."""
REDIS = """
import os, redis
client = redis.Redis.from_url(os.environ["ROBOCO_REDIS_URL"])
commands = {"FLUSHALL": (), "CONFIG": ("GET", "*"), "KEYS": ("*",), "ACL": ("LIST",), "SHUTDOWN": (), "MONITOR": ()}
commands |= {"EVAL": ("return 1", 0)}
commands |= {f"take from {pool}": ("RPOP", f"roboco.{pool}") for pool in ("coordinator", "agents", "tools")}
for name, words in commands.items():
    try:
        client.execute_command(*((name, *words) if name.isupper() else words))
    except redis.exceptions.NoPermissionError:
        continue
    print(name)
"""
"""A program that prints the commands which Redis allows to the user of its environment."""


STATUSES = """
import json
from roboco import Orchestrator
with Orchestrator() as orchestrator:
    tasks = [orchestrator.task(entry.task_id) for entry in orchestrator.tasks()]
    print(json.dumps([str(task.result(120).status) for task in tasks]))
"""
"""A program that waits for the end of every task, and prints the statuses."""


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    """Yield a room; without an engine, or a folder for it, skip the tests: they take some ten minutes."""
    if reason := missing():
        pytest.skip(f"no Docker engine can run here: {reason}")
    folder = os.environ.get("ROBOCO_ROOM")
    if folder is None:
        pytest.skip("ROBOCO_ROOM names no folder for the Docker engine of these tests")
    with Room(Path(folder)) as room:
        yield room


@pytest.fixture(scope="module")
def images(room: Room) -> dict[str, str]:
    """Build all images from packages, and return their names with digests."""
    return faults.load_or_build(room)


@pytest.fixture(scope="module")
def deployment(room: Room, images: dict[str, str]) -> Iterator[Deployment]:
    """Yield the deployment, which began with nothing, with two workers of each pool and a team for callers."""
    teams = room.shared / "teams"
    teams.mkdir(exist_ok=True)
    (teams / "till.yaml").write_text(json.dumps(faults_team()))
    values = variables(images) | {"LEASE_SECONDS": str(faults.LEASE_SECONDS), "TEAMS_FOLDER": str(teams)}
    deployment = Deployment(room, values)
    deployment.down()
    try:
        deployment.up("--quiet-pull", *faults.SCALE)
        yield deployment
    finally:
        deployment.down()


def faults_team() -> dict[str, Any]:
    """Return the team of the load as a team file has it."""
    return TEAM.model_dump(mode="json", exclude_unset=True)


def test_a_missing_variable_is_named_and_nothing_starts(room: Room, images: dict[str, str]) -> None:
    values = variables(images)
    del values["REDIS_PASSWORD_AGENTS"]
    refused = Deployment(room, values, ("compose.yaml",)).compose("up", "--detach", check=False)
    assert "REDIS_PASSWORD_AGENTS" in refused
    assert "openssl rand -hex 24" in refused


def test_the_image_is_small_and_runs_without_rights(room: Room, images: dict[str, str]) -> None:
    """It has no pip, no sources, and a user without a password; its root need not be writable."""
    size = int(room.run("docker", "image", "inspect", "--format", "{{.Size}}", "roboco"))
    assert size < 400_000_000
    closed = ("docker", "run", "--rm", "--read-only", "--cap-drop", "ALL", "--network", "none", "roboco")
    assert room.run(*closed, "id", "-u").strip() == "10001"
    assert "roboco, version" in room.run(*closed, "roboco", "--version")
    assert "Read-only file system" in room.run(*closed, "touch", "/app/file", check=False)
    assert "No module named pip" in room.run(*closed, "python", "-m", "pip", check=False)


def test_every_service_is_healthy_and_doctor_finds_no_failure(deployment: Deployment) -> None:
    deployment.wait_healthy(SERVICES)
    admin = f"redis://roboco-admin:{deployment.values['REDIS_PASSWORD_ADMIN']}@redis:6379/0"
    report = deployment.run_in("coordinator", "roboco", "doctor", changes={"ROBOCO_REDIS_URL": admin})
    assert "FAIL" not in report
    assert "ok   queue roboco.tools" in report


def test_each_container_has_limits_and_few_rights(deployment: Deployment) -> None:
    for service in SERVICES:
        host = deployment.inspect(deployment.first(service))["HostConfig"]
        assert host["Memory"] > 0, service
        assert host["PidsLimit"] > 0, service
        assert host["ReadonlyRootfs"], service
        assert host["CapDrop"] == ["ALL"], service


def test_the_demo_runs_in_the_image(deployment: Deployment) -> None:
    """With another Redis: the image has no server."""
    room, network = deployment.room, "roboco_models"
    redis = (
        *("docker", "run", "--detach", "--rm", "--network", network, "--network-alias", "own"),
        deployment.values["REDIS_IMAGE"],
    )
    started = room.run(*redis, "redis-server", "--protected-mode", "no").strip()
    try:
        demo = ("docker", "run", "--rm", "--read-only", "--tmpfs", "/tmp:mode=1777", "--network", network)
        environment = {
            "ROBOCO_REDIS_URL": "redis://own:6379/0",
            "ROBOCO_WORKSPACE": "file:///tmp/workspace",
            "OPENAI_BASE_URL": "http://model:8000/v1",
            "OPENAI_API_KEY": "not-a-key",
        }
        options = [word for name, value in environment.items() for word in ("-e", f"{name}={value}")]
        assert "completed" in room.run(*demo, *options, "roboco", "roboco", "demo", timeout=120)
    finally:
        room.run("docker", "kill", started)


def test_a_caller_outside_submits_and_follows(deployment: Deployment) -> None:
    """It reaches the published port alone. A gateway that is killed meanwhile costs it nothing but a request."""
    assert json.loads(call(deployment))["status"] == "completed"


def call(deployment: Deployment) -> str:
    """Run a caller outside, and return the last line that it prints."""
    operator = {
        "AWS_ACCESS_KEY_ID": deployment.values["S3_ACCESS_KEY_OPERATOR"],
        "AWS_SECRET_ACCESS_KEY": deployment.values["S3_SECRET_KEY_OPERATOR"],
    }
    key = deployment.run_in("gateway", "roboco", "keys", "create", "caller", changes=operator).split()[-1]
    module = "tests.deployment.containers.caller"
    return deployment.room.from_outside(
        sys.executable, "-m", module, "http://127.0.0.1:8080", key, "till"
    ).splitlines()[-1]


@pytest.mark.parametrize("service", [*POOLS, "gateway"])
def test_a_container_reaches_nothing_that_it_does_not_need(deployment: Deployment, service: str) -> None:
    """Neither other services, nor ports of the store beside S3, nor metadata services of clouds, nor the engine."""
    places = [
        f"{other}:{port}"
        for other in ("coordinator", "agents", "tools", "gateway", "flower")
        if other != service
        for port in (9464, 8080, 5555)
    ]
    places += ["s3:9333", "s3:8888", "s3:8080", "s3:18888", "169.254.169.254:80", "192.0.2.1:443", "172.17.0.1:2375"]
    assert deployment.run_in(service, "python", "-c", CONNECT, *places, "redis:6379", "s3:9000").split() == [
        "redis:6379",
        "s3:9000",
    ]


def test_flower_reaches_redis_alone(deployment: Deployment) -> None:
    places = ("s3:9000", "gateway:8080", "coordinator:9464", "169.254.169.254:80", "redis:6379")
    assert deployment.run_in("flower", "python", "-c", CONNECT, *places).split() == ["redis:6379"]


@pytest.mark.parametrize("service", [*POOLS, "gateway", "flower"])
def test_redis_allows_a_container_only_its_own_queue(deployment: Deployment, service: str) -> None:
    allowed = deployment.run_in(service, "python", "-c", REDIS).splitlines()
    assert allowed == ([f"take from {service}"] if service in POOLS else [])


@pytest.mark.parametrize("service", [*POOLS, "gateway"])
def test_the_store_allows_a_container_only_tasks(deployment: Deployment, service: str) -> None:
    assert deployment.run_in(service, "python", "-c", S3).splitlines() == ["task"]


def test_an_agents_worker_killed_for_memory_loses_nothing(deployment: Deployment) -> None:
    """The kernel ends it because a process in the container takes more than the limit."""
    load = deployment.start_load()
    hungry = "data = []\nwhile True: data.append(bytearray(64 << 20))"
    deployment.run_in(
        "agents", "sh", "-c", f"echo -1000 > /proc/self/oom_score_adj; exec python -c '{hungry}'", check=False
    )
    deployment.kill("agents")
    assert load.finish()["findings"] == []


@pytest.mark.parametrize(
    "name",
    [
        "tools: kill",
        "agents: disconnect, long",
        "redis: kill",
        "s3: pause, long",
        "coordinator: receives, sends nothing",
    ],
)
def test_a_fault_between_hosts_loses_and_doubles_nothing(deployment: Deployment, name: str) -> None:
    (fault,) = (one for one in faults.faults() if f"{one.service}: {one.name}" == name)
    assert faults.run(deployment, fault)["findings"] == []


def test_open_tasks_continue_after_down_and_up(deployment: Deployment) -> None:
    """`down` without `--volumes` removes every container during a load, that of the followers included."""
    load = deployment.start_load(3)
    deployment.compose("down", "--timeout", "5")
    load.finish(30)
    deployment.up(*faults.SCALE)
    statuses = json.loads(deployment.run_in("client", "python", "-c", STATUSES).splitlines()[-1])
    assert len(statuses) >= 3
    assert set(statuses) == {"completed"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kustomize_builds_each_overlay_with_its_components(room: Room, overlay: str) -> None:
    """The real tool, and the schemas of Kubernetes."""
    folder = room.shared / f"overlay-{overlay}"
    folder.mkdir(exist_ok=True)
    base = os.path.relpath(ROOT / "deploy/kubernetes", folder)
    (folder / "kustomization.yaml").write_text(
        f"resources: [{base}/{overlay}]\ncomponents: [{base}/keda, {base}/sandbox]\n"
    )
    built = list(
        yaml.safe_load_all(room.run("kustomize", "build", "--load-restrictor", "LoadRestrictionsNone", folder))
    )
    assert len(built) > 20
    for one in built:
        if not one["apiVersion"].startswith("keda.sh/"):
            kubernetes_validate.validate(one, VERSIONS[1], strict=True)
