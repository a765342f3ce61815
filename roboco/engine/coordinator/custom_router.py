"""users_router: a router of the user's own, which may raise anything, hang, or end the worker that asks it."""

import logging

from roboco.domain.dead_letter import lost_work
from roboco.domain.decision.router import Route, Router
from roboco.domain.history.history import History
from roboco.domain.team.team import Team
from roboco.engine.engine import Engine
from roboco.errors import TransientError

_log = logging.getLogger(__name__)


def users_router(engine: Engine, task_id: str, name: str) -> Router:
    """The user's router; whatever it raises becomes a route to nowhere, which ends the task and says why.

    So does a router that ends its worker again and again.
    """
    key = f"router:{task_id}"

    def routed(team: Team, history: History) -> Route:
        lost = engine.attempts.begin(key)
        if lost is None:
            raise TransientError(
                f"router {name!r} is being asked for this task by another worker, or one that was lost"
            )
        if lost >= engine.policy.attempts:
            why = f"the worker was lost {lost} times that asked it"
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
        _log.warning("a count of attempts is kept although it is not needed: %s", error)


def _asked(engine: Engine, name: str, key: str, team: Team, history: History) -> Route:
    try:
        return engine.toolbox.router(name)(team, history)
    except TransientError:
        _forget_attempts(engine, key)
        raise
    except Exception as error:
        return Route("", name, "failed", f"{type(error).__name__}: {error}"[:1000])
