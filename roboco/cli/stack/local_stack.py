"""LocalStack: what one run of a team needs and the environment does not name, started and ended with it."""

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from roboco.adapters.local.process import Server, free_port, wait_ready
from roboco.adapters.local.valkey import start_valkey
from roboco.cli.stack.celery_process import environment, kill, start_worker
from roboco.cli.stack.local_model import Tell, find_local_model, is_named, model_environment, start_local_model
from roboco.cli.terminal.signals import Interrupted, undisturbed
from roboco.client.orchestrator import Orchestrator
from roboco.domain.team.team import Team
from roboco.settings import Settings

_WORKER = "run"
_WARM = 10.0
"""Seconds that a worker on a shared Redis has to finish what it does."""


@dataclass(frozen=True)
class Missing:
    """What has to be started; a Redis of our own has no workers but ours."""

    redis: bool
    worker: bool
    model: bool


def missing(team: Team, env: Mapping[str, str], worker: bool = False) -> Missing:
    """What the environment lacks to run the team; with `worker` a worker is wanted in any case."""
    redis = not env.get("ROBOCO_REDIS_URL")
    named = is_named(env) or any(
        profile.base_url or env.get(profile.api_key_env or "") for profile in team.models.values()
    )
    return Missing(redis, redis or worker, (redis or worker) and not named)


class LocalStack:
    """Starts what is missing on entering; on leaving all of it is gone, whatever happened. Main thread only."""

    def __init__(self, settings: Settings, lacking: Missing, tell: Tell) -> None:
        self._settings = settings
        self._lacking = lacking
        self._tell = tell
        self._servers: list[Server] = []
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
        self._end(0 if hurried else _WARM)

    @property
    def has_worker(self) -> bool:
        """Whether a worker of our own runs."""
        return self._lacking.worker

    def check(self) -> None:
        """TransientError, with the end of its log, if something that we started has died."""
        for server in self._servers:
            if not server.alive():
                wait_ready(server, lambda: False, 0)

    def _start(self) -> None:
        folder = Path(
            self._exits.enter_context(tempfile.TemporaryDirectory(prefix="roboco-", ignore_cleanup_errors=True))
        )
        settings = self._settings
        if settings.cache_dir is None:
            settings = settings.model_copy(update={"cache_dir": folder / "cache"})
        if self._lacking.redis:
            valkey = start_valkey(folder / "valkey")
            self._servers.append(valkey)
            settings = settings.model_copy(update={"redis_url": valkey.url, "broker_url": None})
        self.orchestrator = Orchestrator(settings)
        self._exits.callback(self.orchestrator.close)
        if self._lacking.redis:
            self.orchestrator.disown_stored_tasks()
        port = free_port() if self._lacking.model else None
        if self._lacking.worker:
            env = environment(settings, {} if port is None else model_environment(port))
            self._servers.append(start_worker(_WORKER, "roboco.workers.app", env, folder / "worker.log"))
        if port is not None:
            model = find_local_model(self._tell)
            self._servers.append(start_local_model(model, folder, port, self._tell))

    def _end(self, warm: float) -> None:
        with undisturbed():
            for server in sorted(self._servers, key=lambda server: server.name != _WORKER):
                if server.name == _WORKER and not self._lacking.redis:
                    server.stop(warm)
                kill(server)
            self._exits.close()
