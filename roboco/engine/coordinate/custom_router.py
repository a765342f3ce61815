"""custom_router: call a router function of the user, which may raise any exception, hang, or kill its worker."""

import logging

from roboco.domain.dead_letter import dead_letter_of_lost_work
from roboco.domain.decision.route import WORKER_LOST_RULE, Route
from roboco.domain.decision.router import Router
from roboco.domain.history.state import History
from roboco.domain.team.team import Team
from roboco.engine.engine import Engine, TaskStores
from roboco.errors import TransientError
from roboco.ports.lease_renewals import AttemptLease

_log = logging.getLogger(__name__)


def guarded_router(engine: Engine, task_id: str, name: str) -> Router:
    """Return the user's router with guards: if it raises, or kills its worker repeatedly, the task fails.

    The returned router raises TransientError while another worker calls the user's router for the same task.
    """
    key = f"router:{task_id}"

    def call_guarded(team: Team, history: History) -> Route:
        lost = engine.tasks.leases.start_attempt(key)
        if lost is None:
            raise TransientError(
                f"router {name!r} is running for this task on another worker, or on one that was lost; it is retried"
            )
        if lost >= engine.policy.max_attempts:
            why = f"the worker was lost {lost} times while it ran"
            engine.tasks.dead_letters.add(
                dead_letter_of_lost_work("advance", task_id, f"router {name}", why, lost, engine.now())
            )
            chosen = Route("", name, WORKER_LOST_RULE, why)
        else:
            with engine.process.heartbeat.renewing(AttemptLease(key)):
                chosen = _call_router(engine, name, key, team, history)
        _reset_attempts(engine.tasks, key)
        return chosen

    return call_guarded


def _reset_attempts(tasks: TaskStores, key: str) -> None:
    try:
        tasks.leases.finish_attempts(key)
    except TransientError as error:
        _log.warning("the attempts at a router stay counted, because Redis does not answer: %s", error)


def _call_router(engine: Engine, name: str, key: str, team: Team, history: History) -> Route:
    try:
        return engine.services.toolbox.router(name)(team, history)
    except TransientError:
        _reset_attempts(engine.tasks, key)
        raise
    except Exception as error:
        return Route("", name, "failed", f"{type(error).__name__}: {error}"[:1000])
