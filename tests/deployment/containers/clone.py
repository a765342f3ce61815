"""A fresh clone, as a user makes it, and a registry of the room in the place of Docker Hub.

The registry holds the images that are built from packages, under the names of the published ones. So `pin-images.sh`
asks a registry for digests, and Compose pulls and builds with them.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.deployment.containers.deployment import descriptors
from tests.deployment.containers.images import REGISTRY, build_variables
from tests.deployment.containers.room import Room
from tests.deployment.files import ROOT

PROXY = """
services:
  coordinator: &proxy {build: {network: host, secrets: [pip, ca]}}
  agents: *proxy
  tools: *proxy
  gateway: *proxy
  flower: *proxy
secrets: {pip: {file: PIP_CONF}, ca: {file: PIP_CA}}
"""
"""Builds behind a proxy."""
FILES = "compose.yaml:compose.override.yaml:proxy.yaml"
"""The first two are those that Compose reads by itself. The second one is the user's own."""
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


def run(room: Room, folder: Path, commands: str, variables: dict[str, str] | None = None) -> str:
    """Run commands as a user types them in the clone. Return their output."""
    typed = f"cd {folder} && {commands}"
    changed = descriptors() | {"COMPOSE_FILE": FILES} | (variables or {})
    return room.run("bash", "-euo", "pipefail", "-c", typed, timeout=900, variables=changed)


@contextmanager
def clone(room: Room) -> Iterator[Path]:
    """Yield a fresh clone whose images are built behind a proxy. Its containers and data end with it."""
    folder = room.shared / "clone"
    subprocess.run(["rm", "-rf", folder], check=True)
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, folder], check=True)
    proxy = PROXY
    for name in ("PIP_CONF", "PIP_CA"):
        proxy = proxy.replace(name, build_variables(room)[name])
    (folder / "proxy.yaml").write_text(proxy)
    (folder / "compose.override.yaml").write_text("services: {}\n")
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
