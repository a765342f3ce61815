"""`compose.yaml`, really up: its services, a client beside them, and faults of their processes and networks."""

import json
import resource
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.deployment.containers.room import Room
from tests.deployment.containers.shop import TEAM
from tests.deployment.files import DEPLOY

HERE = "tests/deployment/containers"
FILES = ("compose.yaml", f"{HERE}/compose.test.yaml")
POOLS = ("coordinator", "agents", "tools")
SERVICES = (*POOLS, "gateway", "flower", "redis", "s3")
SCALE = tuple(word for pool in POOLS for word in ("--scale", f"{pool}=2"))
LEASE_SECONDS = 6
PUBLISHED = ("_callers", "_operators")


def variables(images: dict[str, str]) -> dict[str, str]:
    """Return the variables of `.env`. make-secrets.sh prints those that name no images."""
    printed = subprocess.run([DEPLOY / "make-secrets.sh"], check=True, capture_output=True, text=True).stdout
    made = images | dict(line.split("=", 1) for line in printed.splitlines())
    return made | descriptors() | {"REDIS_PASSWORD_CLIENT": made["REDIS_PASSWORD_PROBE"][::-1]}


def printed_commands() -> str:
    """Return the commands for Compose that deploy/README.md prints."""
    _, first, rest = (DEPLOY / "README.md").read_text().partition("deploy/pin-images.sh > .env")
    return first + rest.partition("```")[0]


def descriptors() -> dict[str, str]:
    """Return the variables that deploy/README.md names where Docker may not raise the number of descriptors."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    usual = {"GATEWAY_DESCRIPTORS": 65536, "PROXY_DESCRIPTORS": 131072}
    return {name: str(min(number, hard) if hard > 0 else number) for name, number in usual.items()}


@dataclass
class Deployment:
    """A project of Compose in a room. `files` are those of `docker compose --file`."""

    room: Room
    values: dict[str, str]
    files: tuple[str, ...] = FILES
    project: str = "roboco"
    _severed: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)

    def compose(
        self, *arguments: str, check: bool = True, timeout: float = 300, changes: Mapping[str, str] | None = None
    ) -> str:
        """Run `docker compose`, with these variables changed."""
        return self.room.run(
            *self._command(), *arguments, check=check, timeout=timeout, variables={**self.values, **(changes or {})}
        )

    def up(self, *arguments: str) -> None:
        """Start all services, and return when they are healthy."""
        self.compose("up", "--detach", "--wait", "--wait-timeout", "240", "--quiet-pull", *arguments)

    def down(self) -> None:
        """Remove the containers, networks and data."""
        self.compose("--profile", "monitoring", "down", "--volumes", "--timeout", "2", "--remove-orphans")

    def run_in(self, service: str, *command: str, check: bool = True, changes: Mapping[str, str] | None = None) -> str:
        """Run a command in a container of the service."""
        options = [word for name, value in (changes or {}).items() for word in ("-e", f"{name}={value}")]
        return self.compose("exec", "-T", *options, service, *command, check=check)

    def containers(self, service: str) -> list[str]:
        """Return the ids of the service's containers."""
        return self.compose("ps", "--all", "--quiet", service).split()

    def inspect(self, container: str) -> dict[str, Any]:
        """Return what Docker knows about the container."""
        return dict(json.loads(self.room.run("docker", "inspect", container))[0])

    def states(self) -> dict[str, str]:
        """Return the state, and the health where there is one, of each container by its name."""
        lines = self.compose("ps", "--all", "--format", "{{.Name}} {{.State}} {{.Health}} {{.ExitCode}}").splitlines()
        return {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in lines}

    def wait_healthy(self, services: Iterable[str], seconds: float = 180) -> None:
        """Wait until all containers of the services are healthy."""
        deadline = time.monotonic() + seconds
        for service in services:
            while not all(
                self.inspect(one)["State"].get("Health", {}).get("Status") == "healthy"
                for one in self.containers(service)
            ):
                assert time.monotonic() < deadline, (
                    f"{service}: {self.states()}\n{self.compose('logs', '--tail=30', service)}"
                )
                time.sleep(0.5)

    def logs(self, service: str) -> str:
        """Return all that the containers of the service have printed."""
        return self.compose("logs", "--no-color", service)

    def kill(self, service: str) -> None:
        """Kill process 1 of a container, as the kernel does when memory is short. Docker starts it again.

        After `docker kill` it would not: that is an operator's stop.
        """
        self.room.run("kill", "-KILL", str(self.inspect(self.first(service))["State"]["Pid"]))

    def prefer_as_victims(self, container: str) -> None:
        """Let the kernel end the processes of a container that run now, except process 1, when its memory is short."""
        _, _, *processes = self.room.run("docker", "top", container, "-o", "pid").split()
        for process in processes:
            self.room.run("sh", "-c", f"echo 1000 > /proc/{process}/oom_score_adj")

    def pause(self, service: str) -> None:
        """Suspend all processes of a container."""
        self.room.run("docker", "pause", self.first(service))

    def unpause(self, service: str) -> None:
        """Let them continue."""
        self.room.run("docker", "unpause", self.first(service))

    def disconnect(self, service: str) -> None:
        """Take a container off all its networks, except those on which it publishes ports."""
        container = self.first(service)
        for network, place in self.inspect(container)["NetworkSettings"]["Networks"].items():
            if network.endswith(PUBLISHED):
                continue
            self._severed.append((network, container, tuple(place["Aliases"] or ())))
            self.room.run("docker", "network", "disconnect", "--force", network, container)

    def reconnect(self) -> None:
        """Undo every `disconnect`."""
        while self._severed:
            network, container, aliases = self._severed.pop()
            options = [word for alias in aliases for word in ("--alias", alias)]
            self.room.run("docker", "network", "connect", *options, network, container)

    def in_network(self, service: str, *command: str) -> str:
        """Run a command of the room, such as tc, in the network namespace of a container. Return its output."""
        process = str(self.inspect(self.first(service))["State"]["Pid"])
        return self.room.run("nsenter", "--target", process, "--net", *command)

    def first(self, service: str) -> str:
        """Return the container of the service that the faults hit. Others of the service take its work over."""
        return self.containers(service)[0]

    def start_load(self, tasks: int = 6, continued: Sequence[str] = ()) -> "Load":
        """Start tasks, or take these again, with followers in the client's container. Return when all are running."""
        chosen = ("--continue", *continued) if continued else ("--tasks", str(tasks))
        words = (*self._command(), "exec", "-T", "client", "python", "-m", "tests.deployment.containers.load", *chosen)
        return Load(self.room.popen(*words, variables=self.values))

    def _command(self) -> tuple[str, ...]:
        return (
            *("docker", "compose", "--project-directory", ".", "--project-name", self.project),
            *(word for one in self.files for word in ("--file", one)),
        )


class Load:
    """A running load."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._process = process
        self._output = process.stdout
        self._lines: list[str] = []
        self._running = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._running.wait(180), "".join(self._lines)[-3000:]
        assert "running\n" in self._lines, "".join(self._lines)[-3000:]
        self.task_ids = [line.split()[1] for line in self._lines if line.startswith("submitted ")]

    def finish(self, seconds: float = 300) -> dict[str, Any]:
        """Return the findings, and the numbers of repeated turns and resumed streams, once all tasks have ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._reader.join(10)
        self._output.close()
        found = [line for line in self._lines if line.startswith('{"findings"')]
        return dict(json.loads(found[-1])) if found else {"findings": ["".join(self._lines)[-3000:] or "no end"]}

    def _read(self) -> None:
        for line in self._output:
            self._lines.append(line)
            if line == "running\n":
                self._running.set()
        self._running.set()


@contextmanager
def deployed(room: Room, images: dict[str, str], *files: str, **changes: str) -> Iterator[Deployment]:
    """Yield compose.yaml with these files, up from nothing, with two workers of each pool."""
    teams = room.shared / "teams"
    teams.mkdir(exist_ok=True)
    (teams / "till.yaml").write_text(json.dumps(TEAM.model_dump(mode="json", exclude_unset=True)))
    values = variables(images) | {"LEASE_SECONDS": str(LEASE_SECONDS), "TEAMS_FOLDER": str(teams)} | changes
    with running(Deployment(room, values, (*FILES, *files))) as deployment:
        yield _up(deployment, *SCALE)


@contextmanager
def image_alone(room: Room, images: dict[str, str]) -> Iterator[Deployment]:
    """Yield the services of compose.image.yaml."""
    files = (f"{HERE}/compose.image.yaml",)
    with running(Deployment(room, images, files, "roboco-image")) as deployment:
        yield _up(deployment)


@contextmanager
def running(deployment: Deployment) -> Iterator[Deployment]:
    """Yield a deployment without containers and data. What it has then ends with it."""
    deployment.down()
    try:
        yield deployment
    finally:
        deployment.down()


def _up(deployment: Deployment, *arguments: str) -> Deployment:
    try:
        deployment.up(*arguments)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{deployment.compose('logs', '--tail=30', check=False)}") from None
    return deployment
