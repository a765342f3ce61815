"""process_engine: the engine of a worker process, created at its first use in every child process."""

from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded

from roboco.adapters.celery.dispatcher import NODE
from roboco.adapters.per_process import PerProcess
from roboco.adapters.redis.client import connect
from roboco.client.wiring import Host, build_engine, dispatcher_of
from roboco.engine.engine import Engine
from roboco.settings import Settings
from roboco.workers.observability import Observing


class ProcessEngine:
    """Returns the engine of the calling process: connections must not be shared across a fork."""

    def __init__(self, app: Celery, settings: Settings) -> None:
        self.settings = settings
        self.concurrency = 1
        """Celery tasks that the worker runs in parallel; set before its pool forks."""
        self.observing = Observing(app, settings)

        def build() -> Engine:
            client = connect(settings.redis_url)
            worker = str(app.conf.get(NODE) or "")
            host = Host(self.observing.telemetry(), worker, SoftTimeLimitExceeded, self.concurrency)
            return build_engine(settings, dispatcher_of(app), client, host)

        self._engine = PerProcess(build)

    def __call__(self) -> Engine:
        """Return the engine of this process."""
        return self._engine()
