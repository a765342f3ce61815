"""Workers and gateways forked from a process with all imports done, since tests start hundreds of them.

From its arguments on, a forked worker runs as `celery -A MODULE worker` does, and a gateway as its command. The
benchmarks, the tests of the command line and those of `deploy/` start the command itself.
"""

import atexit
import ctypes
import gc
import importlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

from celery.__main__ import main as celery

from roboco.cli.main import main as roboco
from roboco.local.process import Server


def _python() -> None:
    """Run the script that the arguments name, as the interpreter does."""
    sys.argv = sys.argv[1:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
    runpy.run_path(sys.argv[0], run_name="__main__")


PROGRAMS: Mapping[str, Callable[[], object]] = {
    "celery": celery,
    "python": _python,
    "roboco": roboco,
    "uvicorn": lambda: importlib.import_module("uvicorn").main(),  # the lowest versions are tested without it
}
IMPORTED = (
    "billiard.popen_fork",
    "billiard.sharedctypes",
    "celery.app.amqp",
    "celery.app.control",
    "celery.app.events",
    "celery.app.log",
    "celery.apps.worker",
    "celery.bin.celery",
    "celery.concurrency.prefork",
    "celery.concurrency.thread",
    "celery.fixups.django",
    "celery.loaders.app",
    "celery.worker.autoscale",
    "celery.worker.components",
    "celery.worker.strategy",
    "roboco.broker.consumer",
    "roboco.cli.gateway.serve",
    "roboco.gateway.app",
    "roboco.model.openai_model",
    "roboco.workers.compose_app",
    "roboco.workers.scans",
    "roboco.workers.sweeper",
    "uvicorn.main",
)
"""Modules that the fork server imports. None of them reads the environment, which differs by worker."""


class Forked(subprocess.Popen[bytes]):
    """A child of the fork server, with the interface of `Popen` that `Server` uses."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process
        self.pid = process.pid or 0

    def poll(self) -> int | None:
        self.returncode: int | None = self._process.exitcode
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        ended = self.poll()
        if ended is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return ended

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended, and `poll` does not report it yet
                os.kill(self.pid, sig)


def start(
    name: str, arguments: Sequence[str], *, env: Mapping[str, str], log: Path, cwd: Path, program: str = "celery"
) -> Server:
    """Start one of PROGRAMS with these arguments, as `roboco.local.process.start_server` would."""
    log.touch()
    process = _context().Process(
        target=_run, args=(program, tuple(arguments), dict(env), log, cwd), name="MainProcess", daemon=True
    )
    process.start()
    return Server(name, Forked(process), log)


def run_script(script: Path, *arguments: str, env: Mapping[str, str]) -> str:
    """Run a program of Python in its folder, and return what it prints."""
    log = script.with_suffix(".printed")
    log.unlink(missing_ok=True)
    started = start(script.name, [str(script), *arguments], program="python", env=env, log=log, cwd=script.parent)
    code = started.process.wait(180)
    assert code == 0, log.read_text()
    return log.read_text()


def run_command(*words: str, env: Mapping[str, str], folder: Path, program: str = "roboco") -> tuple[int, str]:
    """Run the program with these arguments in the folder. Return its exit code and what it prints."""
    log = folder / f"{time.monotonic_ns()}.printed"
    started = start(" ".join(words), words, program=program, env=env, log=log, cwd=folder)
    return started.process.wait(180), log.read_text()


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *IMPORTED])
    return context


def _run(program: str, arguments: Sequence[str], env: dict[str, str], log: Path, cwd: Path) -> None:
    """Set the child up as the command's process, and run the program."""
    gc.freeze()  # a collection would read, and so copy, all objects of the fork server: half of a worker's start
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)  # PR_SET_PDEATHSIG
    with open(os.devnull, "rb") as nothing, open(log, "ab") as output:
        for descriptor, file in enumerate((nothing, output, output)):
            os.dup2(file.fileno(), descriptor)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:0] = [str(cwd), *filter(None, env.get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv = [program, *arguments]
    unknown = set(IMPORTED) - sys.modules.keys()  # the fork server ignores modules that it cannot import
    assert not unknown, f"not imported: {unknown}"
    try:
        PROGRAMS[program]()
    finally:
        atexit._run_exitfuncs()
