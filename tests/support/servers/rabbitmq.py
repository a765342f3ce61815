"""An installed RabbitMQ as a child process, with separate ports, node name and folders for each test."""

import os
import shutil
import signal
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kombu import Connection

from roboco.errors import UsageError
from roboco.local.process import LOOPBACK, Server, free_port, start_server, wait_ready
from tests.support.stack import until

_READY_SECONDS: Final = 120.0
_SCRIPT_FOLDERS: Final = ("/usr/lib/rabbitmq/bin", "/usr/local/sbin", "/opt/rabbitmq/sbin")
"""Folders of the server's own script. The one on the PATH may be a wrapper that changes the user and the settings."""


@dataclass
class RabbitServer:
    """A running RabbitMQ with its port mapper."""

    folder: Path
    port: int
    mapper: Server
    server: Server
    environment: dict[str, str] = field(repr=False)

    @property
    def url(self) -> str:
        return f"amqp://roboco:secret@{LOOPBACK}:{self.port}//"

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        os.killpg(self.server.pid, signal.SIGKILL)  # together with its helpers
        self.server.process.wait()
        until(self._is_closed, 60, "nothing listens at RabbitMQ's port any more")

    def control(self, *words: str) -> None:
        """Run a command of rabbitmqctl."""
        command = shutil.which("rabbitmqctl", path=os.pathsep.join(_SCRIPT_FOLDERS)) or "rabbitmqctl"
        environment = os.environ | self.environment
        subprocess.run([command, *words], env=environment, check=True, capture_output=True, timeout=60)

    def restart(self) -> None:
        """Restart the server with its data."""
        self.server = _start_server(self.folder, self.environment, self.port)

    def set(self, line: str) -> None:
        """Restart the server with one more line in its configuration."""
        self.kill()
        with (self.folder / "rabbitmq.conf").open("a") as file:
            file.write(f"{line}\n")
        self.restart()

    def stop(self) -> None:
        """Stop the server and its port mapper."""
        if self.server.alive():
            self.kill()
        self.mapper.stop()

    def _is_closed(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((LOOPBACK, self.port)) != 0


def find_rabbitmq() -> tuple[str, str]:
    """Return the commands of the server and of Erlang's port mapper. Raise UsageError if one is not installed."""
    found = [shutil.which(name, path=os.pathsep.join(_SCRIPT_FOLDERS)) or shutil.which(name) for name in _NEEDED]
    if not all(found):
        raise UsageError(f"RabbitMQ is not installed: the tests need {' and '.join(_NEEDED)} on the PATH")
    return str(found[0]), str(found[1])


_NEEDED: Final = ("rabbitmq-server", "epmd")


def start_rabbitmq(folder: Path) -> RabbitServer:
    """Start a server in the folder. Return once it answers."""
    _, epmd = find_rabbitmq()
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port(3)
    mapper = start_server("epmd", [epmd, "-port", str(port + 2), "-address", LOOPBACK], log=folder / "epmd.log")
    (folder / "rabbitmq.conf").write_text(
        f"listeners.tcp.1 = {LOOPBACK}:{port}\ndefault_user = roboco\ndefault_pass = secret\n"
    )
    environment = _environment(folder, port)
    try:
        return RabbitServer(folder, port, mapper, _start_server(folder, environment, port), environment)
    except BaseException:
        mapper.stop()
        raise


def _start_server(folder: Path, environment: dict[str, str], port: int) -> Server:
    server = start_server("rabbitmq", [find_rabbitmq()[0]], env=environment, log=folder / "rabbitmq.log")

    def answers() -> bool:
        try:
            with Connection(f"amqp://roboco:secret@{LOOPBACK}:{port}//", connect_timeout=1) as connection:
                connection.connect()
        except OSError:
            return False
        return True

    try:
        wait_ready(server, answers, _READY_SECONDS)
    except BaseException:
        if server.alive():
            os.killpg(server.pid, signal.SIGKILL)
        raise
    return server


def _environment(folder: Path, port: int) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))}
    return inherited | {
        "HOME": str(folder),
        "ERL_EPMD_ADDRESS": LOOPBACK,
        "ERL_EPMD_PORT": str(port + 2),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
        "RABBITMQ_DIST_PORT": str(port + 1),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_NODENAME": f"roboco-{port}@localhost",
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RUNNING_UNDER_SYSTEMD": "1",  # replaces the script's shell, so that signals reach the server
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }
