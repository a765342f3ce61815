"""A Docker engine beside the machine, for a test, and commands in it."""

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tests.deployment.files import ROOT

SCRIPT = Path(__file__).with_name("room.sh")
UNREACHABLE = 69
_INSTALL_SECONDS = 900.0
_START_SECONDS = 60.0


class Unreachable(Exception):
    """Packages of Debian or PyPI cannot be reached, for a reason outside of this project. The text is the reason."""


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
        try:
            self._install()
        except BaseException:
            self._lock.close()
            raise
        environment = os.environ | {"ROOM_MOUNTS": f"{self.root} {self.shared} {self.folder / 'base'}"}
        (self.folder / "pid").unlink(missing_ok=True)
        # A killed test leaves no engine.
        run: list[str | Path] = ["setpriv", "--pdeathsig", "TERM", "sh", SCRIPT, "run", self.folder]
        # Ctrl-C, which ends its process group, lets a test stop its containers first.
        self._process = subprocess.Popen(run, env=environment, process_group=0)
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

    @contextmanager
    def online(self) -> Iterator[None]:
        """Give the room a way out, for builds alone."""
        subprocess.run(["sh", SCRIPT, "online", self.folder], check=True)
        self._until("ip", "route", "get", "192.0.2.1")
        try:
            yield
        finally:
            subprocess.run(["sh", SCRIPT, "offline", self.folder], check=True)

    def _install(self) -> None:
        """Install the engine, unless the folder holds it. Nothing of an installation stays if this process ends."""
        log = self.folder / "make.log"
        command: list[str | Path] = ["setpriv", "--pdeathsig", "KILL", "sh", SCRIPT, "make", self.folder]
        with log.open("w") as file:
            try:
                made = subprocess.run(command, stdout=file, stderr=file, timeout=_INSTALL_SECONDS).returncode
            except subprocess.TimeoutExpired:
                late = f"they took more than {_INSTALL_SECONDS:.0f} s"
                raise Unreachable(f"{late}; {last_lines(log.read_text())}") from None
        if made:
            text = log.read_text()
            raise Unreachable(last_lines(text)) if made == UNREACHABLE else AssertionError(text[-3000:])

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not (self.folder / "pid").exists() or not (self.folder / "pid").read_text():
            assert self._process.poll() is None, "the room ended"
            assert time.monotonic() < deadline, "the room did not start"
            time.sleep(0.1)
        self._until("docker", "version")

    def _until(self, *command: str) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while subprocess.run(["sh", SCRIPT, "in", self.folder, *command], capture_output=True).returncode:
            assert self._process.poll() is None, (self.folder / "engine.log").read_text()[-2000:]
            assert time.monotonic() < deadline, f"{command}: {(self.folder / 'engine.log').read_text()[-2000:]}"
            time.sleep(0.2)


def last_lines(text: str, lines: int = 2) -> str:
    """Return the last lines of a program's output, as one line."""
    return "; ".join([line.strip() for line in text.splitlines() if line.strip()][-lines:])
