"""custom_router: call a router function of the user, which may raise any exception, hang, or kill its worker."""

import logging

from roboco.domain.dead_letter import lost_work
from roboco.domain.decision.router import Route, Router
from roboco.domain.history.history import History
from roboco.domain.team.team import Team
from roboco.engine.engine import Engine
from roboco.errors import TransientError

_log = logging.getLogger(__name__)


def users_router(engine: Engine, task_id: str, name: str) -> Router:
    """Return the user's router with guards: if it raises, or kills its worker repeatedly, the task fails.

    The returned router raises TransientError while another worker calls the user's router for the same task.
    """
    key = f"router:{task_id}"

    def routed(team: Team, history: History) -> Route:
        lost = engine.attempts.begin(key)
        if lost is None:
            raise TransientError(
                f"router {name!r} is running for this task on another worker, or on one that was lost; it is retried"
            )
        if lost >= engine.policy.attempts:
            why = f"the worker was lost {lost} times while it ran"
            engine.dead.add(lost_work("advance", task_id, f"router {name}", why, lost, engine.now()))
            chosen = Route("", name, "failed", why)
        else:
            with engine.heartbeat.renewing(lambda: engine.attempts.renew(key), lambda: None):
                chosen = _asked(engine, name, key, team, history)
        _forget_attempts(engine, key)
        return chosen

    return routed


def _forget_attempts(engine: Engine, key: str) -> None:
    try:
        engine.attempts.end(key)
    except TransientError as error:
        _log.warning("the attempts at a router stay counted, because Redis does not answer: %s", error)


def _asked(engine: Engine, name: str, key: str, team: Team, history: History) -> Route:
    try:
        return engine.toolbox.router(name)(team, history)
    except TransientError:
        _forget_attempts(engine, key)
        raise
    except Exception as error:
        return Route("", name, "failed", f"{type(error).__name__}: {error}"[:1000])
