"""Roboco in a shop's own Celery application: `install(app)` adds two Celery tasks, and `team` is a signature of one.

    roboco.team ─► submission ─► ... ─► the task ends ─► notice ─► roboco.ended ─► result backend, chain, callbacks
    (shop)         (workspace)          (Roboco)         (workspace)  (shop)        (shop)

A redelivered message is the same submission, because the task's id is derived from the Celery task's. The submission
keeps the rest of the canvas. Roboco redelivers the notification until `roboco.ended` has confirmed it.
"""

from typing import Any, Final
from weakref import WeakSet

from celery import Celery
from celery.exceptions import Ignore

from roboco.broker.names import ENDED_TASK, TEAM_TASK
from roboco.client.canvas.broker import warn_of_broker
from roboco.client.canvas.ended_task import continue_canvas, wait_for_result
from roboco.client.canvas.revocations import watch_revokes
from roboco.client.canvas.signature import team
from roboco.client.canvas.team_task import TeamInvocation, refuse, submit_team
from roboco.client.orchestrator import Orchestrator
from roboco.errors import Overloaded, TransientError, UsageError
from roboco.process.per_process import PerProcess
from roboco.settings import Settings, load_settings

__all__ = ["install", "team"]

MAX_RETRIES: Final = 12
"""Retries of a submission whose servers do not answer: for ten minutes altogether."""
MAX_BACKOFF: Final = 60
"""Seconds between two of those retries, at most."""

_installed: WeakSet[Celery] = WeakSet()


def __dir__() -> list[str]:
    return sorted(__all__)


def install(app: Celery, settings: Settings | None = None, queue: str | None = None) -> None:
    """Add `roboco.team` and `roboco.ended` to a shop's own application. Its settings stay as they are.

    The workers need the same servers as an `Orchestrator`: Redis, the workspace and the broker of Roboco, from the
    `settings` or the environment. The two Celery tasks use the `queue`, or the application's own routes. A second call
    has no effect.
    """
    if app in _installed:
        return
    _installed.add(app)

    orchestrator = PerProcess(lambda: Orchestrator(settings or load_settings()))
    _register(app, orchestrator, {} if queue is None else {"queue": queue})
    watch_revokes(app, lambda: orchestrator()._engine)
    warn_of_broker(app, settings)


def _register(app: Any, orchestrator: Any, options: dict[str, Any]) -> None:
    acknowledge_late: dict[str, Any] = {"acks_late": True, "reject_on_worker_lost": True, "shared": False, **options}

    team_task: Any = app.task(
        name=TEAM_TASK,
        bind=True,
        track_started=False,
        throws=(UsageError, Overloaded),
        autoretry_for=(TransientError,),
        dont_autoretry_for=(Overloaded,),
        max_retries=MAX_RETRIES,
        retry_backoff=True,
        retry_backoff_max=MAX_BACKOFF,
        **acknowledge_late,
    )
    ended_task: Any = app.task(
        name=ENDED_TASK, ignore_result=True, throws=(TransientError, UsageError), **acknowledge_late
    )

    def submit_invocation(self: Any, *previous: Any, **arguments: Any) -> Any:
        given = vars(self.request).get("ignore_result")  # absent if the caller has not chosen
        ignored = bool(self.ignore_result if given is None else given)
        order = TeamInvocation(app, self.request, ignored, options.get("queue"))
        try:
            task = submit_team(orchestrator(), order, previous, dict(arguments))
        except (UsageError, Overloaded) as error:
            if not self.request.is_eager:
                refuse(orchestrator(), self.request, error)
            raise
        if self.request.is_eager:
            return wait_for_result(task, str(arguments.get("result", "text")))
        raise Ignore

    def run_ended(task_id: str, name: str) -> None:
        continue_canvas(app, orchestrator()._engine, task_id, name)

    team_task(submit_invocation)
    ended_task(run_ended)
