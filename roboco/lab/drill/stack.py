"""DrillStack: Redis, a store, a model server and a worker of each pool, each behind a gate at which faults strike."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

from roboco.cli.stack.celery_process import environment, kill, start_celery
from roboco.cli.terminal.signals import ignore_signals
from roboco.errors import UsageError
from roboco.lab.drill.executions import FOLDER_VARIABLE, Executions
from roboco.lab.servers.gate import Gate
from roboco.lab.servers.model_server import ModelServer
from roboco.local.process import LOOPBACK, Server, wait_ready
from roboco.local.seaweed import find_weed, start_seaweed
from roboco.local.valkey import ValkeyServer, start_valkey
from roboco.redis.client import connect
from roboco.settings import Settings

POOLS: Final = ("coordinator", "agents", "tools")
S3_TIMEOUT: Final = 2.0
"""Seconds to wait for the store in a drill: a late answer is later than that."""
READY_TIMEOUT: Final = 120.0
_PROCESSES: Final = {"coordinator": ["-c", "2"], "agents": [], "tools": ["-c", "2"]}
"""Options of each pool's command."""
_S3_VARIABLES: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_FOREIGN_VARIABLES: Final = ("AWS_PROFILE", "AWS_SESSION_TOKEN")


class DrillStack:
    """Starts everything on entering, and kills all of it on leaving, however that happens. Main thread only.

    `settings` of the user name the modules of tools, and limits of the sandbox; servers, leases and names are the
    drill's. Without an S3 server on this machine the store is a folder: then `store` is None.
    """

    valkey: ValkeyServer
    store: Gate | None = None

    def __init__(self, settings: Settings, folder: Path, lease: float) -> None:
        self.folder = folder
        self.executions = Executions(folder)
        self.model = ModelServer(keep=5_000)
        self.gates: dict[str, Gate] = {}
        self.workers: dict[str, Server] = {}
        self.settings = settings
        self.without_store = ""
        """Why the store is a folder, or ""."""
        self._lease = lease
        self._exits = ExitStack()
        self._servers: list[Server] = []

    def __enter__(self) -> Self:
        try:
            self._start_servers()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def allow_model_server(self, entries: tuple[str, ...]) -> None:
        """Allow workers that start later to use these model servers, as the allowlist does."""
        allowlist = self.settings.allowlist.extended(model_servers=entries)
        self.settings = self.settings.model_copy(update={"allowlist": allowlist})

    def start_workers(self) -> None:
        """Start a worker of each pool, and return once all of them take work. Raise TransientError if one does not."""
        for pool in POOLS:
            self.start(pool)
        self._wait_ready()

    def start(self, pool: str) -> None:
        """Start another worker of the pool, which is the one that later faults hit. It is not ready yet."""
        name = f"{pool}-{len(self._servers)}"
        arguments = ["worker", "-l", "INFO", "-n", f"{name}@%h", *_PROCESSES[pool]]
        log = self.folder / f"{name}.log"
        worker = start_celery(name, f"roboco.workers.{pool}", arguments, self._environment(pool), log)
        self.workers[pool] = worker
        self._servers.append(worker)

    def is_ready(self, pool: str) -> bool:
        """Return True if the pool's newest worker takes work."""
        return b" ready." in self.workers[pool].log.read_bytes()

    def revive(self) -> None:
        """Start a worker in place of each one that has ended, and wait for all."""
        for pool, worker in list(self.workers.items()):
            if not worker.alive():
                self.start(pool)
        self._wait_ready()

    def _wait_ready(self) -> None:
        for pool, worker in self.workers.items():
            wait_ready(worker, lambda pool=pool: self.is_ready(pool), READY_TIMEOUT)  # type: ignore[misc]

    def signal(self, worker: Server, number: signal.Signals) -> None:
        """Send the signal to the worker and all processes that it started."""
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, number)

    def empty_redis(self) -> None:
        """Delete all data in Redis."""
        with connect(self.valkey.url) as client:
            client.flushall()

    def copy_redis(self) -> Path:
        """Return a copy of the data of Redis as of now, for `restart_redis`."""
        copy = self.folder / "redis-copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.folder / "valkey", copy, ignore=shutil.ignore_patterns("*.log", "*.lock"))
        return copy

    def restart_redis(self, data: Path | None = None) -> None:
        """Kill Redis, and start it on its own data, or on a copy of earlier data."""
        kill(self.valkey)
        if data is not None:
            shutil.rmtree(self.folder / "valkey" / "appendonlydir", ignore_errors=True)
            shutil.copytree(data, self.folder / "valkey", dirs_exist_ok=True)
        self._start_redis(self.valkey.port)

    def _start_servers(self) -> None:
        self._start_redis(None)
        self._exits.enter_context(self.model)
        self.gates = {pool: self._exits.enter_context(Gate(self.valkey.port)) for pool in POOLS}
        changes: dict[str, Any] = {
            "redis_url": self.valkey.url,
            "workspace": (self.folder / "workspace").as_uri(),
            "lease_seconds": self._lease,
            "s3_timeout": S3_TIMEOUT,
        }
        kept = {name: getattr(self.settings, name) for name in _USER_SETTINGS}
        self.settings = Settings.model_validate(kept | changes | self._start_store())

    def _start_redis(self, port: int | None) -> None:
        self.valkey = start_valkey(self.folder / "valkey", port)
        self._servers.append(self.valkey)

    def _start_store(self) -> dict[str, Any]:
        """Start an S3 server behind a gate, and return the settings for it; none if there is no such server here."""
        try:
            find_weed()
        except UsageError as error:
            self.without_store = str(error)
            return {}
        server = start_seaweed(self.folder / "s3")
        self._exits.callback(server.stop)
        keys = dict(zip(_S3_VARIABLES, (server.access_key, server.secret_key), strict=True))
        self._exits.enter_context(_variables(keys))
        self.store = self._exits.enter_context(Gate(server.port))
        # The drill itself reads past the gate, so that a fault of the store hits workers alone.
        return {"workspace": f"s3://{server.bucket}/drill", "s3_endpoint_url": server.endpoint_url}

    def _environment(self, pool: str) -> dict[str, str]:
        behind_gates: dict[str, Any] = {"redis_url": f"redis://{LOOPBACK}:{self.gates[pool].port}/0"}
        if self.store is not None:
            behind_gates["s3_endpoint_url"] = f"http://{LOOPBACK}:{self.store.port}"
        direct = {"NO_PROXY": LOOPBACK, "no_proxy": LOOPBACK, "OTEL_SDK_DISABLED": "true"}
        env = environment(self.settings.model_copy(update=behind_gates), direct)
        return env | {FOLDER_VARIABLE: str(self.folder)}

    def _close(self) -> None:
        with ignore_signals():
            for server in reversed(self._servers):
                self.signal(server, signal.SIGCONT)
                kill(server)
            self._exits.close()


_USER_SETTINGS: Final = (
    "tool_modules",
    "allowlist",
    "mcp_sandbox",
    "sandbox_memory",
)
"""Settings of the user that a drill keeps. Others name servers, or limits of a deployment."""


@contextmanager
def _variables(changes: dict[str, str]) -> Iterator[None]:
    """Set these variables of the process, and remove foreign ones of AWS, inside the block."""
    names = (*changes, *_FOREIGN_VARIABLES)
    before = {name: os.environ.get(name) for name in names}
    for name in _FOREIGN_VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
