"""LocalStack: the servers that one run of a team needs and the environment does not name, started and ended with it."""

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from roboco.cli.stack.celery_process import environment, kill, listens, start_gateway, start_worker
from roboco.cli.stack.local_model import LocalModel, Report, model_environment, names_model
from roboco.cli.terminal.signals import Interrupted, ignore_signals
from roboco.domain.team.team import Team
from roboco.local.process import LOOPBACK, Server, free_port, wait_ready
from roboco.local.valkey import start_valkey
from roboco.process.extras import require_extra
from roboco.redis.client import connect
from roboco.redis.keys import Keys
from roboco.redis.schedule import RedisSchedule
from roboco.redis.scripts import Scripts
from roboco.settings import Settings

_WORKER_NAME = "run"
_UNLIMITED_SECONDS = 10.0 * 365 * 86_400
_GATEWAY_TIMEOUT = 30.0
_WARM_SHUTDOWN_TIMEOUT = 10.0
"""Seconds that a worker on a shared Redis has to finish its work."""


@dataclass(frozen=True)
class MissingServers:
    """The servers that have to be started. A Redis that is started here has no other workers."""

    redis: bool
    worker: bool
    model: bool


def missing_servers(team: Team, env: Mapping[str, str], worker: bool = False) -> MissingServers:
    """Return the servers that the environment lacks to run the team; with `worker`, a worker in any case."""
    redis = not env.get("ROBOCO_REDIS_URL")
    named = names_model(env) or any(
        profile.base_url or env.get(profile.api_key_env or "") for profile in team.models.values()
    )
    return MissingServers(redis, redis or worker, (redis or worker) and not named)


class LocalStack:
    """Starts the missing servers on entering, and ends all of them on leaving, after errors too. Main thread only.

    The model may still be loading when the block begins: `wait_model` waits for it.
    """

    def __init__(self, settings: Settings, missing: MissingServers, report: Report) -> None:
        self.settings = settings
        """The settings that name the servers, those that were started here too."""
        self._missing = missing
        self._report = report
        self._servers: list[Server] = []
        self._model: LocalModel | None = None
        self._stop_timeout = 0.0
        """Seconds that the worker has to finish its work. Before the model is loaded, it has no task of this run."""
        self._exits = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._end(0)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        hurried = kind is not None and issubclass(kind, Interrupted)
        self._end(0 if hurried else self._stop_timeout)

    def close_at_end(self, close: Callable[[], None]) -> None:
        """Call `close` after the servers have ended. No signal interrupts it."""
        self._exits.callback(close)

    def wait_model(self) -> None:
        """Return once the model is loaded. Call this before the first task is submitted.

        Raises TransientError if the model's download fails or its server does not start.
        """
        if self._model is not None:
            self._servers.append(self._model.ready())
        self._stop_timeout = _WARM_SHUTDOWN_TIMEOUT

    @property
    def has_worker(self) -> bool:
        """True if a worker runs that was started here."""
        return self._missing.worker

    def start_gateway(self) -> str:
        """Start the HTTP gateway for this machine alone, without keys. Return the address of its page when it answers.

        Raises UsageError if its packages are missing, and TransientError if it does not start.
        """
        require_extra("gateway", "the web view", "local")
        port = free_port()
        server = start_gateway(port, environment(self.settings, {}), self._folder / "gateway.log")
        self._servers.append(server)
        wait_ready(server, lambda: listens(port), _GATEWAY_TIMEOUT)
        return f"http://{LOOPBACK}:{port}/"

    def check(self) -> None:
        """Raise TransientError, with the end of its log, if a server that was started here has died."""
        for server in self._servers:
            if not server.alive():
                wait_ready(server, lambda: False, 0)

    def _start(self) -> None:
        """Start the missing servers side by side, and return once Redis answers.

        The worker may still be starting: it takes the task from its queue when it is ready.
        """
        if self._missing.worker:
            require_extra("workers", "a worker on this machine", "local")
        scratch = tempfile.TemporaryDirectory(prefix="roboco-", ignore_cleanup_errors=True)
        self._folder = folder = Path(self._exits.enter_context(scratch))
        port = free_port() if self._missing.model else None
        if port is not None:
            self._model = LocalModel(folder, port, self._report)
            self._exits.callback(self._model.close)
            self._model.launch()
        if self._missing.redis or self._missing.worker:
            self._report(_announcement(self._missing, self._model))
        self.settings = self._start_redis(folder)
        if self._missing.worker:
            env = environment(self.settings, {} if port is None else model_environment(port))
            self._servers.append(start_worker(_WORKER_NAME, "roboco.workers.app", env, folder / "worker.log"))

    def _start_redis(self, folder: Path) -> Settings:
        """Start a Redis if it is missing, and return the settings with its address."""
        if not self._missing.redis:
            return self.settings
        valkey = start_valkey(folder / "valkey")
        self._servers.append(valkey)
        settings = self.settings.model_copy(update={"redis_url": valkey.url, "broker_url": None})
        with closing(connect(valkey.url)) as client:
            # Before a worker starts: its sweeper must not continue open tasks of other runs in this workspace.
            RedisSchedule(Scripts(client), Keys(settings.prefix)).mark_filled(_UNLIMITED_SECONDS)
        return settings

    def _end(self, timeout: float) -> None:
        with ignore_signals():
            for server in sorted(self._servers, key=lambda server: server.name != _WORKER_NAME):
                if server.name == _WORKER_NAME and not self._missing.redis:
                    server.stop(timeout)
                kill(server)
            self._exits.close()


def _announcement(missing: MissingServers, model: LocalModel | None) -> str:
    """Return the line that names everything that is started."""
    names = ["Redis"] * missing.redis + ["a worker"] * missing.worker + ([] if model is None else [model.name])
    *first, last = names
    hosted = "" if model is None else "; it writes simple sentences at best: set OPENAI_API_KEY for a real one"
    return f"starting {', '.join(first)} and {last}{hosted}" if first else f"starting {last}"
