"""The commands of deploy/README.md for Compose, as printed, in a fresh clone.

The registry of the room takes the place of Docker Hub: it holds the images that are built from packages, under the
names of the published ones. So `pin-images.sh` asks a registry for digests, and Compose pulls and builds with them.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.deployment.containers.deployment import descriptors, printed_commands
from tests.deployment.containers.images import REGISTRY, attempt, build_variables
from tests.deployment.containers.model import PORT
from tests.deployment.containers.room import Room
from tests.deployment.files import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.workers]
UP = "docker compose up --build --detach --wait\n"
OVERRIDE = """
services:
  coordinator: &proxy {build: {network: host, secrets: [pip, ca]}}
  agents: *proxy
  tools: *proxy
  gateway: *proxy
  flower: *proxy
secrets: {pip: {file: PIP_CONF}, ca: {file: PIP_CA}}
"""
"""Builds behind a proxy: compose.override.yaml is the user's own file, which Compose reads beside compose.yaml."""
HUB = """
set -eu
cd "$1"
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=registry-1.docker.io \
    -addext subjectAltName=DNS:registry-1.docker.io -keyout hub.key -out hub.pem 2>hub.log
grep -q registry-1.docker.io /etc/hosts || echo 127.0.0.1 registry-1.docker.io >>/etc/hosts
cat >hub.yaml <<CONFIGURATION
version: 0.1
storage: {filesystem: {rootdirectory: /var/lib/docker/registry}}
http: {addr: "127.0.0.1:443", secret: not-used, tls: {certificate: $PWD/hub.pem, key: $PWD/hub.key}}
log: {level: error}
CONFIGURATION
exec docker-registry serve hub.yaml
"""
"""Serve the registry of the room under the name of Docker Hub, with a certificate in hub.pem."""


def test_the_printed_commands_end_with_an_answering_gateway(room: Room, images: dict[str, str]) -> None:
    """From a clone without `.env`: digests, passwords, build, `up`, `doctor`, the first key, and a request with it."""
    before, up, after = printed_commands().partition(UP)
    assert up
    create, curl = after[: after.index("curl ")], after[after.index("curl ") :]
    with docker_hub(room, images) as certificate, clone(room) as folder, room.online():
        attempt(room, lambda: run(room, folder, before + up, {"SSL_CERT_FILE": certificate}))
        printed = run(room, folder, create)
        assert "ok   queue roboco.tools" in printed
        assert "FAIL" not in printed
        assert '"tenant":"acme"' in run(room, folder, curl.replace("KEY", printed.split()[-1]))


def test_try_sh_ends_with_a_complete_demo_and_a_key(room: Room, images: dict[str, str]) -> None:
    """With a model server on the host of Docker, from a clone without `.env`."""
    command = f"OPENAI_BASE_URL=http://host.docker.internal:{PORT}/v1 deploy/try.sh"
    model = room.popen_outside(sys.executable, "-m", "tests.deployment.containers.model")
    try:
        with docker_hub(room, images) as certificate, clone(room) as folder, room.online():
            printed = attempt(room, lambda: run(room, folder, command, {"SSL_CERT_FILE": certificate}))
            assert "It smells of salt" in printed
            key = printed.split()[-1]
            asked = f"curl --silent --fail -H 'Authorization: Bearer {key}' http://127.0.0.1:8080/v1/me"
            assert '"scopes"' in run(room, folder, asked)
    finally:
        model.terminate()
        model.communicate(timeout=30)


def run(room: Room, folder: Path, commands: str, variables: dict[str, str] | None = None) -> str:
    """Run commands as a user types them in the clone. Return what they print."""
    typed = f"cd {folder} && {commands}"
    return room.run("bash", "-euo", "pipefail", "-c", typed, timeout=900, variables=descriptors() | (variables or {}))


@contextmanager
def clone(room: Room) -> Iterator[Path]:
    """Yield a fresh clone with the user's override for a proxy. Its containers and data end with it."""
    folder = room.shared / "clone"
    subprocess.run(["rm", "-rf", folder], check=True)
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, folder], check=True)
    override = OVERRIDE
    for name in ("PIP_CONF", "PIP_CA"):
        override = override.replace(name, build_variables(room)[name])
    (folder / "compose.override.yaml").write_text(override)
    try:
        yield folder
    finally:
        room.run("docker", "compose", "--project-name", "roboco", "down", "--volumes", "--timeout", "2")


@contextmanager
def docker_hub(room: Room, images: dict[str, str]) -> Iterator[str]:
    """Publish the built images under the names of pin-images.sh. Yield the certificate of the registry that has them.

    Images that no test builds get another one under their name: `up` does not start them.
    """
    listed = (ROOT / "deploy/pin-images.sh").read_text().partition("<<IMAGES\n")[2].partition("IMAGES\n")[0]
    for line in listed.splitlines():
        name, published = line.split()
        built = images.get(name, images["PYTHON_IMAGE"])
        stored = f"{REGISTRY}/{published if '/' in published else f'library/{published}'}"
        room.run("docker", "tag", built, stored)
        room.run("docker", "push", "--quiet", stored)
    folder = room.shared / "hub"
    folder.mkdir(exist_ok=True)
    with room.popen("sh", "-c", HUB, "hub", str(folder), variables={}):
        try:
            ask = f"curl --silent --fail --cacert {folder}/hub.pem https://registry-1.docker.io/v2/"
            room.run("timeout", "20", "sh", "-c", f"until {ask}; do sleep 0.2; done")
            yield f"{folder}/hub.pem"
        finally:
            room.run("pkill", "-f", "docker-registry serve hub.yaml")
