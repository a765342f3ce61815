"""Processes as children: Celery's workers and Flower, with the user's modules importable, and the HTTP gateway."""

import os
import signal
import site
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import roboco
from roboco.local.process import LOOPBACK, Server, start_server
from roboco.settings import Settings

_SOURCE_FOLDER = str(Path(roboco.__file__).parents[1])
"""The folder of the package `roboco`."""


def environment(settings: Settings, extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a Celery process: this one with these settings, and with Roboco importable."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ROBOCO_")}
    if _SOURCE_FOLDER not in (*site.getsitepackages(), site.getusersitepackages()):
        inherited["PYTHONPATH"] = os.pathsep.join(filter(None, (_SOURCE_FOLDER, inherited.get("PYTHONPATH"))))
    one_machine = settings.model_copy(update={"metrics_port": 0})  # its workers would want the same port
    return inherited | one_machine.environment() | dict(extra)


def start_celery(name: str, app: str, arguments: Sequence[str], env: Mapping[str, str], log: Path) -> Server:
    """Start `celery -A app` with these arguments, in the main thread. It is not ready yet when this returns."""
    command = [sys.executable, "-P", "-m", "roboco.cli.stack.celery_main", "-A", app, *arguments]
    return start_server(name, command, env=env, log=log)


def start_worker(name: str, app: str, env: Mapping[str, str], log: Path) -> Server:
    """Start the worker of an application, under a unique node name."""
    return start_celery(name, app, ["worker", "-l", "INFO", "-n", f"{name}-{os.getpid()}@%h"], env, log)


def start_gateway(port: int, env: Mapping[str, str], log: Path) -> Server:
    """Start `roboco serve` for this machine alone, without keys. It does not listen yet when this returns."""
    own = {name: value for name, value in os.environ.items() if name.startswith("ROBOCO_GATEWAY_")}
    command = [sys.executable, "-P", "-m", "roboco.cli.main", "serve", f"--port={port}"]
    return start_server("gateway", command, env={**env, **own, "ROBOCO_GATEWAY_AUTHENTICATION": "false"}, log=log)


def listens(port: int) -> bool:
    """Return True if a process takes connections at this port of this machine."""
    with suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1):
        return True
    return False


def kill(server: Server) -> None:
    """Kill the server and every process that it started. Idempotent."""
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.process.wait()
