"""`compose.yaml`, really up: its services, a client beside them, and faults of their processes and networks."""

import json
import resource
import secrets
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.deployment.containers.room import Room

FILES = ("compose.yaml", "tests/deployment/containers/compose.test.yaml")
POOLS = ("coordinator", "agents", "tools")
PROJECT = "roboco"
_REDIS_USERS = ("COORDINATOR", "AGENTS", "TOOLS", "GATEWAY", "FLOWER", "PROBE", "ADMIN", "CLIENT")
_S3_USERS = ("COORDINATOR", "AGENTS", "TOOLS", "GATEWAY", "OPERATOR")


def variables(images: dict[str, str]) -> dict[str, str]:
    """Return the variables of `.env`, as the commands of deploy/README.md make them."""
    values = images | {f"REDIS_PASSWORD_{user}": secrets.token_hex(24) for user in _REDIS_USERS}
    values |= {f"S3_ACCESS_KEY_{user}": f"roboco-{secrets.token_hex(4)}" for user in _S3_USERS}
    values |= {f"S3_SECRET_KEY_{user}": secrets.token_hex(24) for user in _S3_USERS}
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return values | {
        "FLOWER_BASIC_AUTH": f"me:{secrets.token_hex(12)}",
        "ROBOCO_SIGNING_KEYS": secrets.token_hex(32),
        "ROBOCO_GATEWAY_COOKIE_SECRET": secrets.token_hex(32),
        "GATEWAY_DESCRIPTORS": str(min(65536, hard) if hard > 0 else 65536),
    }


@dataclass
class Deployment:
    """A project of Compose in a room. `files` are those of `docker compose --file`."""

    room: Room
    values: dict[str, str]
    files: tuple[str, ...] = FILES
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

    def kill(self, service: str) -> None:
        """Kill process 1 of a container, as the kernel does when memory is short. Docker starts it again.

        After `docker kill` it would not: that is an operator's stop.
        """
        self.room.run("kill", "-KILL", str(self.inspect(self.first(service))["State"]["Pid"]))

    def pause(self, service: str) -> None:
        """Suspend all processes of a container."""
        self.room.run("docker", "pause", self.first(service))

    def unpause(self, service: str) -> None:
        """Let them continue."""
        self.room.run("docker", "unpause", self.first(service))

    def disconnect(self, service: str) -> None:
        """Take a container off all its networks."""
        container = self.first(service)
        for network, place in self.inspect(container)["NetworkSettings"]["Networks"].items():
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

    def start_load(self, tasks: int = 6) -> "Load":
        """Start tasks with followers in the client's container, and return when all are running."""
        module = "tests.deployment.containers.load"
        words = (*self._command(), "exec", "-T", "client", "python", "-m", module, "--tasks", str(tasks))
        return Load(self.room.popen(*words, variables=self.values))

    def _command(self) -> tuple[str, ...]:
        return (
            "docker",
            "compose",
            "--project-name",
            PROJECT,
            *(word for one in self.files for word in ("--file", one)),
        )


class Load:
    """A running load."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: list[str] = []
        self._running = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._running.wait(120), "".join(self._lines)[-3000:]
        assert "running\n" in self._lines, "".join(self._lines)[-3000:]

    def finish(self, seconds: float = 300) -> dict[str, Any]:
        """Return the findings, and the numbers of repeated turns and resumed streams, once all tasks have ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        if self._process.poll() is None:
            self._process.kill()
        self._reader.join(10)
        found = [line for line in self._lines if line.startswith('{"findings"')]
        return dict(json.loads(found[-1])) if found else {"findings": ["".join(self._lines)[-3000:] or "no end"]}

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)
            if line == "running\n":
                self._running.set()
        self._running.set()
