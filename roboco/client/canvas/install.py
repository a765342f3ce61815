"""A shop's own Celery application: what `install` adds to it, and nothing else.

    roboco.team ─► submission ─► ... ─► the task ends ─► notice ─► roboco.ended ─► result backend, chain, callbacks
    (shop)         (workspace)          (Roboco)         (workspace)  (shop)        (shop)

A message that comes again is the same submission, because its id is derived from the Celery task's. What follows the
Celery task is kept with the submission. The notice is sent until `roboco.ended` has confirmed it.
"""

from typing import Any
from weakref import WeakSet

from celery import Celery
from celery.app import trace
from celery.exceptions import Ignore

from roboco.adapters.celery.names import ENDED, TEAM
from roboco.adapters.per_process import PerProcess
from roboco.client.canvas.broker import warn_of_broker
from roboco.client.canvas.ended_task import go_on, outcome_of
from roboco.client.canvas.refusal import refuse
from roboco.client.canvas.revocations import watch_revokes
from roboco.client.canvas.team_task import Order, submit_team
from roboco.client.orchestrator import Orchestrator
from roboco.errors import Overloaded, TransientError, UsageError
from roboco.settings import Settings, read_settings

RETRIES = 12
"""How often a submission is tried whose servers do not answer: for ten minutes."""
LONGEST = 60
"""Seconds between two of those tries, at most."""

_installed: WeakSet[Celery] = WeakSet()


def install(app: Celery, settings: Settings | None = None, queue: str | None = None) -> None:
    """Add `roboco.team` and `roboco.ended` to a shop's own application. Its settings stay as they are.

    The workers need what `Orchestrator` needs: Redis, the workspace and the broker of Roboco, from the `settings` or
    the environment. The two Celery tasks go through the `queue`, or where the application's own routes lead them. Twice
    is once.
    """
    if app in _installed:
        return
    _installed.add(app)

    orchestrator = PerProcess(lambda: Orchestrator(settings or read_settings()))
    _register(app, orchestrator, {} if queue is None else {"queue": queue})
    watch_revokes(app, orchestrator)
    warn_of_broker(app, settings)


def _register(app: Any, orchestrator: Any, options: dict[str, Any]) -> None:
    tracing: Any = trace
    late: dict[str, Any] = {"acks_late": True, "reject_on_worker_lost": True, "shared": False, **options}

    as_team: Any = app.task(
        name=TEAM,
        bind=True,
        track_started=False,
        throws=(UsageError, Overloaded),
        autoretry_for=(TransientError,),
        dont_autoretry_for=(Overloaded,),
        max_retries=RETRIES,
        retry_backoff=True,
        retry_backoff_max=LONGEST,
        **late,
    )
    as_ended: Any = app.task(name=ENDED, ignore_result=True, throws=(TransientError, UsageError), **late)

    def team(self: Any, *given: Any, **asked: Any) -> Any:
        ignored = bool(tracing.get_actual_ignore_result(self, self.request))
        order = Order(app, self.request, ignored, options.get("queue"))
        try:
            task = submit_team(orchestrator(), order, given, dict(asked))
        except (UsageError, Overloaded) as error:
            if not self.request.is_eager:
                refuse(orchestrator(), self.request, error)
            raise
        if self.request.is_eager:
            return outcome_of(task, str(asked.get("result", "text")))
        raise Ignore

    def ended(task_id: str, name: str) -> None:
        go_on(app, orchestrator()._engine, task_id, name)

    as_team(team)
    as_ended(ended)
