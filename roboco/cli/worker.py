"""Celery processes as children: workers and Flower, with the user's modules importable."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import roboco
from roboco.adapters.local.process import Server, start
from roboco.settings import Settings

_SOURCES = Path(roboco.__file__).parents[1]
"""Where `roboco` and `workers` are importable, installed or not."""


def environment(settings: Settings, more: Mapping[str, str]) -> dict[str, str]:
    """The environment of a Celery process: ours with these settings, and the current folder on its import path.

    Roboco's own folder comes first: a shop may well have a package `workers` too.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ROBOCO_")}
    places = [str(_SOURCES), str(Path.cwd()), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return inherited | settings.environment() | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(places))} | dict(more)


def start_celery(name: str, app: str, arguments: Sequence[str], env: Mapping[str, str], log: Path) -> Server:
    """Start `celery -A app` with these arguments, in the main thread; it is not ready yet when this returns."""
    # -P, because Celery would put the current folder first.
    return start(name, [sys.executable, "-P", "-m", "celery", "-A", app, *arguments], env=env, log=log)


def start_worker(name: str, app: str, env: Mapping[str, str], log: Path) -> Server:
    """Start the worker of an application, under a node name of its own."""
    return start_celery(name, app, ["worker", "-l", "INFO", "-n", f"{name}-{os.getpid()}@%h"], env, log)


def kill(server: Server) -> None:
    """End the server and whatever it started, at once; twice is once."""
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.process.wait()
