"""process_engine: the engine of a worker process, created at its first use in every child process."""

from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded

from roboco.broker.dispatcher import NODE_SETTING, CeleryDispatcher
from roboco.client.wiring import HostProcess, build_engine
from roboco.engine.engine import Engine
from roboco.process.per_process import PerProcess
from roboco.redis.client import connect
from roboco.settings import Settings
from roboco.workers.draining import DrainDeadline
from roboco.workers.observability import WorkerTelemetry


class ProcessEngine:
    """Returns the engine of the calling process: connections must not be shared across a fork."""

    def __init__(self, app: Celery, settings: Settings) -> None:
        self.settings = settings
        self.concurrency = 1
        """Celery tasks that the worker runs in parallel; set before its pool forks."""
        self.telemetry = WorkerTelemetry(app, settings)
        self.deadline = DrainDeadline(settings.drain_timeout)
        """The time at which this worker hands its work over."""

        def build() -> Engine:
            client = connect(settings.redis_url)
            worker = str(app.conf.get(NODE_SETTING) or "")
            host = HostProcess(
                self.telemetry.telemetry(), worker, SoftTimeLimitExceeded, self.deadline, self.concurrency
            )
            return build_engine(settings, CeleryDispatcher(app), client, host)

        self._engine = PerProcess(build)

    def __call__(self) -> Engine:
        """Return the engine of this process."""
        return self._engine()
