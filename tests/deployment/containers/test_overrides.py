"""Files that an operator adds to compose.yaml: nginx with TLS before two gateways, and a store outside."""

import sys
from pathlib import Path

import pytest

from tests.deployment.containers.deployment import FILES, POOLS, SCALE, Deployment, deployed, running, variables
from tests.deployment.containers.images import IMAGES, load_or_build
from tests.deployment.containers.outside import call
from tests.deployment.containers.room import Room
from tests.support.documents import example
from tests.support.stack import until

pytestmark = [pytest.mark.slow, pytest.mark.workers]
GATEWAYS = ("--scale", "gateway=2")
STORE_NETWORKS = ("store", "webhooks", "models", "services", "clients")


def test_callers_reach_two_gateways_through_nginx(room: Room) -> None:
    """The gateway whose stream a caller follows ends: the caller sees each step once, over TLS, from the other one."""
    images = load_or_build(room, (*IMAGES, "nginx"))
    tls = make_certificate(room)
    changes = {"TLS_FOLDER": str(tls), "ROBOCO_GATEWAY_ALLOWED_HOSTS": "localhost"}
    with deployed(room, images, "deploy/compose.proxy.yaml", **changes) as deployment:
        deployment.up("--no-recreate", *SCALE, *GATEWAYS)
        assert len(deployment.containers("gateway")) == 2
        deployment.wait_healthy(("gateway", "proxy"))
        with call(deployment, "https://localhost:8443", f"{tls}/tls.crt") as caller:
            room.run("docker", "stop", gateway_of_stream(deployment))
            result = caller.finish()
            assert result["status"] == "completed"
            assert result["resumed"] >= 1


def test_a_producer_outside_submits_with_the_documented_program(room: Room, images: dict[str, str]) -> None:
    """It reaches Redis at the published port, as the user that may only submit, and signs with the key of `.env`."""
    password = "producer0123456789abcdef"
    with deployed(room, images, "deploy/compose.producer.yaml", REDIS_PASSWORD_PRODUCER=password) as deployment:
        submit_from_outside(deployment, room.shared / "producer")
        until(lambda: '"completed"' in show(deployment, "order-17"), 120, lambda: show(deployment, "order-17"))


def submit_from_outside(deployment: Deployment, folder: Path) -> None:
    """Run the producer of deploy/README.md on the host."""
    folder.mkdir(exist_ok=True)
    for name in ("signing.py", "producer.py"):
        (folder / name).write_text(example("file", name))
    names = ("REDIS_PASSWORD_PRODUCER", "ROBOCO_SIGNING_KEYS")
    variables = [f"{name}={deployment.values[name]}" for name in names]
    deployment.room.from_outside("env", *variables, sys.executable, folder / "producer.py")


def show(deployment: Deployment, task_id: str) -> str:
    """Return what `roboco show` prints."""
    return deployment.run_in("client", "roboco", "show", task_id, "--json", check=False)


def gateway_of_stream(deployment: Deployment) -> str:
    """Return the container of the gateway that sends a stream, once one does."""
    program = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:9464/metrics').read().decode())"

    sending = list[str]()

    def one_sends() -> bool:
        metrics = {
            one: deployment.room.run("docker", "exec", one, "python", "-c", program)
            for one in deployment.containers("gateway")
        }
        sending[:] = [one for one, text in metrics.items() if "\nroboco_gateway_open_streams 1.0\n" in text]
        return bool(sending)

    until(one_sends, 10, "a gateway sends the stream")
    return sending[0]


def make_certificate(room: Room) -> Path:
    """Return a folder with the files that compose.proxy.yaml needs. The user of nginx may read them."""
    folder = room.shared / "tls"
    folder.mkdir(exist_ok=True)
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    files = ("-keyout", folder / "tls.key", "-out", folder / "tls.crt")
    room.run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, *files)
    room.run("chmod", "644", folder / "tls.key")
    return folder


def test_tasks_complete_with_a_store_outside(room: Room, images: dict[str, str]) -> None:
    """The workers wait for the store that is not there yet. It is the SeaweedFS of another project."""
    changes = {"ROBOCO_S3_ENDPOINT_URL": "http://store.example.com:9000", "TEAMS_FOLDER": str(room.shared / "teams")}
    values = variables(images) | changes
    deployment = Deployment(room, values, (*FILES, "deploy/compose.s3.yaml"))
    store = Deployment(room, values, ("compose.yaml",), "store")
    with running(deployment), running(store):  # the store leaves the networks of the deployment first
        store.compose("up", "--detach", "s3", "bucket")
        deployment.compose("up", "--detach", *SCALE)
        assert deployment.containers("coordinator")
        for network in STORE_NETWORKS:
            named = ("--alias", "store.example.com", f"roboco_{network}")
            room.run("docker", "network", "connect", *named, store.first("s3"))
        deployment.wait_healthy((*POOLS, "gateway"))
        assert deployment.start_load(2).finish()["findings"] == []
