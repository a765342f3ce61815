"""The images of the deployment, built in a room from packages of Debian and PyPI."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from tests.deployment.containers.room import Room, Unreachable, last_lines

T = TypeVar("T")
REGISTRY = "127.0.0.1:5000"
IMAGES = ("python", "redis", "seaweedfs", "prometheus")
_BUILD_SECONDS = 900.0
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def load_or_build(room: Room, names: Sequence[str] = IMAGES) -> dict[str, str]:
    """Return the variables of compose.yaml that name images. Earlier runs may have built them, except Roboco's."""
    made = room.folder / "images.json"
    images: dict[str, str] = json.loads(made.read_text()) if made.exists() else {}
    with room.online():
        if unbuilt := [name for name in names if f"{name.upper()}_IMAGE" not in images]:
            images |= attempt(room, lambda: build_bases(room, unbuilt))
            made.write_text(json.dumps(images))
        attempt(room, lambda: build(room, images["PYTHON_IMAGE"]))
    return images


def build_bases(room: Room, names: Sequence[str] = IMAGES) -> dict[str, str]:
    """Build the images of other services. Return the variables of compose.yaml that name them."""
    lines = room.run(
        "deploy/debian/build.sh", REGISTRY, *names, timeout=_BUILD_SECONDS, variables=build_variables(room)
    )
    return dict(line.split("=", 1) for line in lines.splitlines())


def build(room: Room, python_image: str, tag: str = "roboco", context: str | Path = ".") -> None:
    """Build the image of Roboco from this base."""
    secrets = build_variables(room)
    room.run(
        *("docker", "build", "--network", "host", "--tag", tag, "--file", f"{context}/deploy/Dockerfile"),
        *("--build-arg", f"PYTHON_IMAGE={python_image}"),
        *("--secret", f"id=pip,src={secrets['PIP_CONF']}", "--secret", f"id=ca,src={secrets['PIP_CA']}"),
        context,
        timeout=_BUILD_SECONDS,
    )


def attempt(room: Room, action: Callable[[], T], again: bool = True) -> T:
    """Return the result of a build in a room that is online. Build once more if it fails, but not if it takes too long.

    Raise Unreachable if a registry of packages does not answer after a failure; otherwise the error of the build.
    """
    try:
        return action()
    except (AssertionError, subprocess.TimeoutExpired) as error:
        if reason := unreachable(room):
            raise Unreachable(reason) from error
        if not again or isinstance(error, subprocess.TimeoutExpired):
            raise
    return attempt(room, action, again=False)


def unreachable(room: Room) -> str | None:
    """Return why the registries of packages do not answer, or None if they do.

    It asks for things that no change of this project names: the lists of Debian, and the package of pip itself.
    """
    try:
        room.run("apt-get", "update", timeout=180)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        return last_lines(str(error))
    return pip_problem(room.shared / "pip")


def pip_problem(folder: Path) -> str | None:
    """Return why pip cannot download a package from the index of this machine, or None if it can.

    Without pip in this environment nothing is known of the index: return None, too.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--dest", str(folder), "pip"]
    if importlib.util.find_spec("pip") is None:
        return None
    try:
        tried = subprocess.run(command, capture_output=True, text=True, timeout=180)
    except subprocess.TimeoutExpired as error:
        return last_lines(str(error))
    return last_lines(tried.stderr) if tried.returncode else None


def build_variables(room: Room) -> dict[str, str]:
    """Return the variables for builds: pip trusts the certificates that this machine trusts."""
    certificates, configuration = room.shared / "ca.pem", room.shared / "pip.conf"
    certificates.write_bytes(_CERTIFICATES.read_bytes() if _CERTIFICATES.exists() else b"")
    trusted = "[global]\ncert = /run/secrets/ca\n" if _CERTIFICATES.exists() else "[global]\n"
    configuration.write_text(f"{trusted}timeout = 180\n")
    return {
        "PIP_CONF": str(configuration),
        "PIP_CA": str(certificates),
        "BUILD_NETWORK": "host",
        "DEBIAN_ROOT": str(room.folder / "base"),
    }
