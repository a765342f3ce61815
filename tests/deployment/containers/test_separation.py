"""The separation of containers: none reaches other servers, commands of Redis, objects, or a metadata service."""

import sys
from collections.abc import Iterator

import pytest

from tests.deployment.containers.deployment import POOLS, Deployment
from tests.deployment.containers.faults import SERVERS
from tests.deployment.containers.room import Room
from tests.deployment.files import DEPLOY
from tests.support.stack import until

pytestmark = [pytest.mark.slow, pytest.mark.workers]

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
CONNECT_SHELL = """
for address; do
    timeout 2 bash -c "exec 3<>/dev/tcp/${address%:*}/${address##*:}" 2>/dev/null && echo "$address"
done
true
"""
"""The same for images without Python."""
METADATA = "169.254.169.254:80"
OUTSIDE = (METADATA, "192.0.2.1:443", "172.17.0.1:2375")
"""A metadata service of a cloud, the world, and the engine."""
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


@pytest.fixture(scope="module", autouse=True)
def metadata_service(room: Room, images: dict[str, str]) -> Iterator[str]:
    """Yield the address of a metadata service that the room reaches, and every container with a translated address.

    Like that of a cloud it has no route to the addresses of Docker's networks.
    """
    run = ("docker", "run", "--detach", "--rm", "--network", "none")
    container = room.run(*run, "roboco", "python", "-m", "http.server", "80").strip()
    process = room.run("docker", "inspect", "--format", "{{.State.Pid}}", container).strip()
    inside = ("nsenter", "--target", process, "--net", "ip")
    room.run("ip", "link", "add", "cloud", "type", "veth", "peer", "name", "eth0", "netns", process)
    room.run("ip", "address", "add", "169.254.0.1/16", "dev", "cloud")
    room.run("ip", "link", "set", "cloud", "up")
    room.run(*inside, "address", "add", "169.254.169.254/16", "dev", "eth0")
    room.run(*inside, "link", "set", "eth0", "up")
    try:
        yield METADATA
    finally:
        room.run("docker", "kill", container)


def test_the_rule_of_the_readme_hides_a_metadata_service(room: Room, metadata_service: str) -> None:
    """Without it a container with a way out reaches the service, as the machine does."""
    container = ("docker", "run", "--rm", "roboco", "python", "-c", CONNECT, metadata_service)
    rule = "DOCKER-USER -d 169.254.0.0/16 -j DROP"
    assert f"iptables -I {rule}" in (DEPLOY / "README.md").read_text()
    until(lambda: room.from_outside(sys.executable, "-c", CONNECT, metadata_service), 30, "the service answers")
    assert room.run(*container).split() == [metadata_service]
    room.run("iptables", "-I", *rule.split())
    try:
        assert room.run(*container).split() == []
    finally:
        room.run("iptables", "-D", *rule.split())


@pytest.mark.parametrize("service", [*POOLS, "gateway"])
def test_a_container_reaches_nothing_that_it_does_not_need(deployment: Deployment, service: str) -> None:
    """Neither other services, nor ports of the store beside S3, nor metadata services of clouds, nor the engine."""
    places = [
        f"{other}:{port}"
        for other in ("coordinator", "agents", "tools", "gateway", "flower")
        if other != service
        for port in (9464, 8080, 5555)
    ]
    places += ["s3:9333", "s3:8888", "s3:8080", "s3:18888", *OUTSIDE]
    assert deployment.run_in(service, "python", "-c", CONNECT, *places, "redis:6379", "s3:9000").split() == [
        "redis:6379",
        "s3:9000",
    ]


def test_flower_reaches_redis_alone(deployment: Deployment) -> None:
    places = ("s3:9000", "gateway:8080", "coordinator:9464", *OUTSIDE, "redis:6379")
    assert deployment.run_in("flower", "python", "-c", CONNECT, *places).split() == ["redis:6379"]


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_reaches_nothing_outside(deployment: Deployment, server: str) -> None:
    """Redis reaches no port of the store beside S3, either."""
    places = ("redis:6379", "s3:9000", *(("s3:9333", "s3:8888", "s3:18888") if server == "redis" else ()), *OUTSIDE)
    reached = deployment.run_in(server, "bash", "-c", CONNECT_SHELL, "connect", *places).split()
    assert reached == ["redis:6379", "s3:9000"]


@pytest.mark.parametrize("service", [*POOLS, "gateway", "flower"])
def test_redis_allows_a_container_only_its_own_queue(deployment: Deployment, service: str) -> None:
    allowed = deployment.run_in(service, "python", "-c", REDIS).splitlines()
    assert allowed == ([f"take from {service}"] if service in POOLS else [])


@pytest.mark.parametrize("service", [*POOLS, "gateway"])
def test_the_store_allows_a_container_only_tasks(deployment: Deployment, service: str) -> None:
    assert deployment.run_in(service, "python", "-c", S3).splitlines() == ["task"]
