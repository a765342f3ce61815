"""A complete deployment of real processes for a test: Valkey, workers, a workspace, and the scripted model server."""

import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from roboco import Orchestrator, Settings
from roboco.lab.servers.dialect import Dialect
from roboco.local.process import Server, start_server
from roboco.local.seaweed import S3Server
from roboco.local.valkey import ValkeyServer, start_valkey
from tests.support import forked
from tests.support.servers.model_server import ModelServer

ROOT = Path(__file__).parents[2]
POOLS = ("coordinator", "agents", "tools")
TOOLS = "tests.support.tools_for_agents"
PENDING_WORK = ("position", "attempt", "logs", "refusals", "calls", "item_ids")
"""The fields of a snapshot that show what a task waits for."""
LOCAL_VARIABLES = re.compile(r"=+\nLOCAL VARIABLES\n=+\n.*?(?:\n\n\n|\Z)", re.DOTALL)
"""What Celery writes after each stack: the values may be secret."""
LONG_LEASE = 20.0
"""Seconds of a lease where no worker is killed: a worker that is merely slow does not lose it."""


class Stack:
    """A deployment that starts on entering and ends on leaving. `modules` is the package of the workers' modules.

    `s3` is a running S3 server for the workspace, which has a prefix for each test. `around` is a context manager that
    receives the Valkey server and yields settings, for example other servers or proxies. `dialect` is that of the model
    server. `changes` override the tests' settings.
    """

    level = "INFO"
    """The log level of the workers."""
    forks = True
    """True to fork workers, which is quick; False to start them by the command that users type."""
    running: ClassVar[list["Stack"]] = []
    """The stacks of this process, whose state is reported with a failed test."""

    def __init__(
        self,
        folder: Path,
        pools: Sequence[str] = POOLS,
        s3: S3Server | None = None,
        modules: str = "roboco.workers",
        around: Callable[[ValkeyServer], AbstractContextManager[dict[str, Any]]] | None = None,
        dialect: Dialect | str = "openai",
        **changes: Any,
    ) -> None:
        self.folder = folder
        self._changes = changes
        self._around = around
        self.model = ModelServer(dialect=dialect)
        self._pools = pools
        self._modules = modules
        self._s3 = s3
        self._exits = ExitStack()
        self._ready: dict[str, int] = {}
        self.workers: dict[str, Server] = {}

    def __enter__(self) -> Self:
        self.valkey = start_valkey(self.folder / "valkey")
        self._exits.callback(lambda: self.valkey.stop())
        self._exits.enter_context(self.model)
        s3 = self._s3
        own: dict[str, Any] = {
            "redis_url": self.valkey.url,
            "workspace": f"s3://{s3.bucket}/{self.folder.name}" if s3 else f"file://{self.folder}/workspace",
            "s3_endpoint_url": s3.endpoint_url if s3 else None,
            "tool_modules": (TOOLS,),
            "lease_seconds": 2.0,
            "agents_concurrency": 20,
        }
        other = self._exits.enter_context(self._around(self.valkey)) if self._around else {}
        self.settings = Settings.model_validate(own | other | self._changes)
        self._exits.callback(self._stop_workers)
        for pool in self._pools:
            self.start(pool)
        for pool in self._pools:
            self.wait_ready(pool)
        self.orchestrator = Orchestrator(self.settings)
        self._exits.callback(self.orchestrator.close)
        self.running.append(self)
        self._exits.callback(self.running.remove, self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._exits:
            if kind is not None:
                for name, text in self.state():
                    print(f"--- {name}\n{text}", file=sys.stderr)

    @property
    def s3_port(self) -> int | None:
        """The port of the S3 server, or None if the workspace is a folder."""
        return self._s3.port if self._s3 else None

    @property
    def environment(self) -> dict[str, str]:
        """The environment of workers and producers."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("ROBOCO_", "OPENAI_"))}
        return (
            inherited
            | self.settings.environment()
            | {
                "OPENAI_BASE_URL": self.model.base_url,
                "OPENAI_API_KEY": "test-key",
                "PYTHONPATH": str(ROOT),
                "TEST_FOLDER": str(self.folder),
            }
        )

    def start(self, pool: str, modules: str | None = None, **environment: str) -> Server:
        """Start a worker; an earlier one of this name has ended. "agents-2" is a second worker of the pool agents."""
        module = f"{modules or self._modules}.{pool.partition('-')[0]}"
        name = f"{pool}-{len(self.workers)}-{time.monotonic_ns()}"
        arguments = ["-A", module, "worker", "-l", self.level, "-n", name]
        variables = self.environment | environment
        log = self.folder / f"{pool}.log"
        self._ready[pool] = self.log(pool).count(" ready.") + 1
        if self.forks:
            worker = forked.start(pool, arguments, env=variables, log=log, cwd=ROOT)
        else:
            command = [sys.executable, "-m", "celery", *arguments]
            worker = start_server(pool, command, env=variables, log=log, cwd=ROOT)
        self.workers[pool] = worker
        return worker

    def wait_ready(self, pool: str) -> None:
        """Wait until the newest worker of the pool consumes."""

        def ready() -> bool:
            assert self.workers[pool].alive(), f"{pool} ended:\n{self.log(pool)[-3000:]}"
            return self.log(pool).count(" ready.") >= self._ready[pool]

        until(ready, 180, f"{pool} is ready")

    def kill(self, pool: str, sign: signal.Signals = signal.SIGKILL) -> None:
        """Send the signal to the pool's main process; its children end with it."""
        os.kill(self.workers[pool].pid, sign)

    def restart(self, pool: str) -> None:
        """Kill the pool's worker with SIGKILL and start another one."""
        self.kill(pool)
        self.workers[pool].process.wait()
        self.start(pool)

    def restart_redis(self, keep: bool) -> None:
        """Kill Redis with SIGKILL and restart it on its port, with or without its data. Restart workers that ended."""
        os.kill(self.valkey.pid, signal.SIGKILL)
        self.valkey.process.wait()
        if not keep:
            shutil.rmtree(self.folder / "valkey")
        self.valkey = start_valkey(self.folder / "valkey", self.valkey.port)
        for pool, server in list(self.workers.items()):
            if not server.alive():
                self.start(pool)

    def log(self, pool: str) -> str:
        """Return the output of the pool's workers."""
        path = self.folder / f"{pool}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def describe_task(self, task_id: str) -> str:
        """Return the task's pending work, as Redis has it."""
        task = self.orchestrator._engine.tasks.task_store.load(task_id, 1)
        if task is None:
            return f"{task_id} is not in Redis"
        return f"{task_id}: " + ", ".join(f"{name}={getattr(task, name)}" for name in PENDING_WORK)

    def state(self) -> Iterator[tuple[str, str]]:
        """Yield the schedule, the end of each worker's output, then the stacks of its main process's threads."""
        patience: dict[str, Any] = {"socket_timeout": 5, "socket_connect_timeout": 5, "retry": Retry(NoBackoff(), 0)}
        with redis.Redis(port=self.valkey.port, decode_responses=True, **patience) as client:
            try:
                due = [client.zrange(key, 0, 20, withscores=True) for key in client.scan_iter("*}:tasks", _type="zset")]
                yield f"schedule at {time.time():.1f}", "\n".join(map(str, filter(None, due)))
            except redis.RedisError as error:
                yield "schedule", str(error)
        before = {pool: len(self.log(pool)) for pool in self.workers}
        for pool, length in before.items():
            yield pool, LOCAL_VARIABLES.sub("", self.log(pool)[:length])[-4000:]
        for pool, server in self.workers.items():
            if _writes_stacks(server):
                with suppress(ProcessLookupError):
                    os.kill(server.pid, signal.SIGUSR1)
                    time.sleep(1)
                yield f"{pool}: stacks", LOCAL_VARIABLES.sub("", self.log(pool)[before[pool] :])[:20000]

    def count_tool_lines(self) -> int:
        """Return the number of lines that the tests' tools have written."""
        path = self.folder / "calls.txt"
        return path.read_text().count("\n") if path.exists() else 0

    def _stop_workers(self) -> None:
        for server in self.workers.values():
            server.process.terminate()
        for server in self.workers.values():
            server.stop(timeout=5)


def _writes_stacks(server: Server) -> bool:
    """Return True if the process is a worker of Celery that has started: SIGUSR1 would end another one."""
    try:
        status = Path(f"/proc/{server.pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught >> (signal.SIGUSR1 - 1) & 1)


BUSY_FACTOR = 4
"""How many times slower than a calm machine a busy one may be, before a test takes a wait for a hang."""
SHORTEST_WAIT = 30.0
"""Seconds for which a condition is waited for at least, before that factor: a machine may stall for a moment."""


def until(condition: Callable[[], object], seconds: float, what: str | Callable[[], str]) -> None:
    """Wait until the condition holds: at least these seconds on a calm machine, some times as long on a busy one.

    Raise AssertionError with the description after that. It is a guard against a hang: no test measures time with it.
    """
    seconds = BUSY_FACTOR * max(seconds, SHORTEST_WAIT)
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds:g} s still not: {what if isinstance(what, str) else what()}")
        time.sleep(0.01)


@contextmanager
def s3_environment(s3: S3Server | None) -> Iterator[None]:
    """Put the credentials of the S3 server into this process's environment, which workers inherit."""
    if s3 is None:
        yield
        return
    changes = {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key}
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
