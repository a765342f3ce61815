"""A Docker engine beside the machine, for a test: commands in it, and the images of the deployment."""

import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.deployment.files import ROOT

SCRIPT = Path(__file__).with_name("room.sh")
REGISTRY = "127.0.0.1:5000"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
IMAGES = ("python", "redis", "seaweedfs", "prometheus")
UNREACHABLE = 69
_START_SECONDS = 60.0


class Unreachable(Exception):
    """The packages of Debian cannot be reached. The text is that of debootstrap."""


def missing() -> str | None:
    """Return the reason why no engine can run here, or None."""
    if os.geteuid() != 0:
        return "only root can start a Docker engine"
    for program in ("debootstrap", "unshare", "nsenter", "pivot_root", "setpriv"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if "overlay" not in Path("/proc/filesystems").read_text():
        return "the kernel has no overlay file system"
    if not Path("/dev/net/tun").exists():
        return "the kernel has no /dev/net/tun"
    probe = [
        "unshare",
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "sh",
        "-c",
        "mount -t tmpfs none /mnt && ip link set lo up",
    ]
    if subprocess.run(probe, capture_output=True).returncode:
        return "this user may create no namespaces"
    if not list(Path("/sys/fs/cgroup").glob("*memory*")) and not Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return "there are no cgroups"
    return None


class Room:
    """A running engine between entering and leaving. `folder` keeps what was installed and built for the next start."""

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self.folder = folder
        self.root = root
        self.shared = folder / "shared"
        """A folder of the machine that the room sees at the same path."""

    def __enter__(self) -> Self:
        self.shared.mkdir(parents=True, exist_ok=True)
        self._lock = (self.folder / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        with (self.folder / "make.log").open("w") as log:
            made = subprocess.run(["sh", SCRIPT, "make", self.folder], stdout=log, stderr=log).returncode
        if made:
            last = (self.folder / "make.log").read_text()[-1000:].strip()
            raise Unreachable(last) if made == UNREACHABLE else AssertionError(last)
        environment = os.environ | {"ROOM_MOUNTS": f"{self.root} {self.shared} {self.folder / 'base'}"}
        (self.folder / "pid").unlink(missing_ok=True)
        # A killed test leaves no engine.
        run: list[str | Path] = ["setpriv", "--pdeathsig", "TERM", "sh", SCRIPT, "run", self.folder]
        self._process = subprocess.Popen(run, env=environment, start_new_session=True)
        try:
            self._wait()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the engine, and with it all containers and networks."""
        self._process.terminate()
        self._process.wait(30)
        self._lock.close()

    def run(
        self, *command: str | Path, check: bool = True, timeout: float = 600, variables: Mapping[str, str] | None = None
    ) -> str:
        """Run a command in the checkout as the room sees it. Return its output; stderr is part of the error."""
        words = ["sh", "-c", 'cd "$0" && exec "$@"', str(self.root), *map(str, command)]
        ran = subprocess.run(
            ["sh", str(SCRIPT), "in", str(self.folder), *words],
            env={"PATH": os.environ["PATH"], "HOME": "/root", **(variables or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if check and ran.returncode:
            shown = " ".join(map(str, command))
            raise AssertionError(f"{shown} ended with {ran.returncode}:\n{ran.stdout}\n{ran.stderr}")

        return ran.stdout if check else ran.stdout + ran.stderr

    def from_outside(self, *command: str | Path) -> str:
        """Run a program of the machine in the network of the room, where it reaches published ports."""
        with self.popen_outside(*command) as process:
            output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, f"{command} ended with {process.returncode}:\n{output}"
        return output

    def popen_outside(self, *command: str | Path) -> subprocess.Popen[str]:
        """Start a program of the machine in the network of the room, with a pipe for its output."""
        process = (self.folder / "pid").read_text().strip()
        words = ["nsenter", "--target", process, "--net", *map(str, command)]
        return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def popen(self, *command: str, variables: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start a command in the checkout, with a pipe for its output."""
        words = ["sh", "-c", 'cd "$0" && exec "$@"', str(self.root), *command]
        return subprocess.Popen(
            ["sh", str(SCRIPT), "in", str(self.folder), *words],
            env={"PATH": os.environ["PATH"], "HOME": "/root", **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def load_or_build(self, names: Sequence[str] = IMAGES) -> dict[str, str]:
        """Return the variables of compose.yaml that name images. Earlier runs may have built them, except Roboco's."""
        made = self.folder / "images.json"
        images: dict[str, str] = json.loads(made.read_text()) if made.exists() else {}
        self.online()
        if unbuilt := [name for name in names if f"{name.upper()}_IMAGE" not in images]:
            images |= self.build_bases(unbuilt)
            made.write_text(json.dumps(images))
        self.build(images["PYTHON_IMAGE"])
        self.offline()
        return images

    def build_bases(self, names: Sequence[str] = IMAGES) -> dict[str, str]:
        """Build the images of other services from packages. Return the variables of compose.yaml that name them."""
        lines = self.run("deploy/debian/build.sh", REGISTRY, *names, timeout=900, variables=self._online())
        return dict(line.split("=", 1) for line in lines.splitlines())

    def build(self, python_image: str, tag: str = "roboco", context: str | Path = ".") -> None:
        """Build the image of Roboco from this base."""
        secrets = self._online()
        self.run(
            *("docker", "build", "--network", "host", "--tag", tag, "--file", f"{context}/deploy/Dockerfile"),
            *("--build-arg", f"PYTHON_IMAGE={python_image}"),
            *("--secret", f"id=pip,src={secrets['PIP_CONF']}", "--secret", f"id=ca,src={secrets['PIP_CA']}"),
            context,
            timeout=900,
        )

    def online(self) -> None:
        """Give the room a way out, for builds alone."""
        subprocess.run(["sh", SCRIPT, "online", self.folder], check=True)
        self._until("ip", "route", "get", "192.0.2.1")

    def offline(self) -> None:
        """Take the way out away."""
        subprocess.run(["sh", SCRIPT, "offline", self.folder], check=True)

    def _online(self) -> dict[str, str]:
        """Return the variables for builds: pip trusts the certificates that this machine trusts."""
        (self.shared / "ca.pem").write_bytes(CERTIFICATES.read_bytes() if CERTIFICATES.exists() else b"")
        trusted = "[global]\ncert = /run/secrets/ca\n" if CERTIFICATES.exists() else "[global]\n"
        (self.shared / "pip.conf").write_text(f"{trusted}timeout = 180\n")
        return {
            "PIP_CONF": str(self.shared / "pip.conf"),
            "PIP_CA": str(self.shared / "ca.pem"),
            "BUILD_NETWORK": "host",
            "DEBIAN_ROOT": str(self.folder / "base"),
        }

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not (self.folder / "pid").exists() or not (self.folder / "pid").read_text():
            assert time.monotonic() < deadline, "the room did not start"
            time.sleep(0.1)
        self._until("docker", "version")

    def _until(self, *command: str) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while subprocess.run(["sh", SCRIPT, "in", self.folder, *command], capture_output=True).returncode:
            assert self._process.poll() is None, (self.folder / "engine.log").read_text()[-2000:]
            assert time.monotonic() < deadline, f"{command}: {(self.folder / 'engine.log').read_text()[-2000:]}"
            time.sleep(0.2)
