"""The Celery tasks: each body is a call into the engine.

`turn` and `tool` acknowledge early: leases guard them, and a long Celery task must never meet the broker's
visibility timeout. What comes from outside acknowledges late, since nobody else knows of it yet; where a server
does not answer it goes back to its queue. `advance` may get lost: the sweeper rings again.
"""

import time
from collections.abc import Callable
from typing import Any

from billiard.exceptions import TimeLimitExceeded
from celery import Celery, Task
from celery.exceptions import Ignore, Reject

from roboco.adapters.celery.dispatcher import KILL_AFTER
from roboco.adapters.celery.names import ADVANCE, COORDINATOR_QUEUE, FORK, NOTIFY, OUTSIDE, SUBMIT, TOOL, TURN
from roboco.client.intake import take
from roboco.domain.canonical import canonical
from roboco.domain.letter import DeadLetter, letter_id_of
from roboco.engine.advance import advance as engine_advance
from roboco.engine.engine import Engine
from roboco.engine.notify import deliver
from roboco.engine.tool import overdue
from roboco.engine.tool import tool as engine_tool
from roboco.engine.turn import turn as engine_turn
from roboco.errors import Conflict, TransientError, UsageError
from roboco.ports import CallOrder, TurnOrder
from workers.ended import ended
from workers.process import ProcessEngine

PAUSE = 1.0
"""Seconds before something from outside goes back to its queue because a server does not answer."""
LONGEST = 600
"""Seconds after which a look at a task is ended: a router of the user's own may hang."""
SHOWN: dict[str, Any] = {"Request": "roboco.adapters.celery.request:ShownRequest"}
SAFE: dict[str, Any] = {**SHOWN, "acks_late": True, "reject_on_worker_lost": True, "throws": (UsageError,)}


CREATING = (SUBMIT, FORK)
"""What makes a task: without an id of its own it gets one from its message's."""


class ToolTask(Task):  # type: ignore[type-arg]  # celery's stubs make Task generic, celery does not
    """The Celery task of a tool call: where the pool had to kill it, the call is closed from the parent process."""

    engine: ProcessEngine

    def on_failure(self, exc: BaseException, task_id: str, args: Any, kwargs: dict[str, Any], einfo: Any) -> None:
        """Close the call if its time was up; a call that failed otherwise is seen to by its lease."""
        if isinstance(exc, TimeLimitExceeded):
            timeout = float(exc.args[0]) - KILL_AFTER if exc.args else 0.0
            overdue(self.engine(), CallOrder(**kwargs), timeout)


def register(app: Celery, engine: ProcessEngine) -> None:
    """Give the application Roboco's Celery tasks."""
    _register_outside(app, engine)

    look = SHOWN | {"acks_late": True, "reject_on_worker_lost": False, "time_limit": LONGEST}

    @app.task(name=ADVANCE, throws=(TransientError,), **look)
    def advance(task_id: str) -> None:
        engine_advance(engine(), task_id)

    @app.task(name=NOTIFY, **look, throws=(TransientError,))
    def notify(task_id: str) -> None:
        deliver(engine(), task_id)

    @app.task(name=TURN, **SHOWN, throws=(TransientError, Conflict))
    def turn(**order: Any) -> str:
        return ended(engine_turn(engine(), TurnOrder(**order)))

    @app.task(name=TOOL, **SHOWN, base=type("BoundToolTask", (ToolTask,), {"engine": engine}), throws=(TransientError,))
    def tool(**order: Any) -> None:
        if not engine_tool(engine(), CallOrder(**order)):
            raise Ignore


def _register_outside(app: Celery, engine: ProcessEngine) -> None:
    for name in OUTSIDE:
        register_as: Any = app.task(name=name, bind=True, **SAFE)
        register_as(_taking(engine, name))


def _taking(engine: ProcessEngine, name: str) -> Callable[..., None]:
    def take_in(self: Any, **arguments: Any) -> None:
        named = {"task_id": f"task_{self.request.id}"} | arguments if name in CREATING else arguments
        _or_again(engine(), self.request, lambda: take(engine(), engine.settings, name, named, self.request.id))

    return take_in


def _or_again(engine: Engine, request: Any, accept: Callable[[], object]) -> None:
    """Accept what came from outside; put it back if a server does not answer.

    What ends all its workers, or fails in a way that is not its sender's mistake, is kept as a dead letter.
    """
    key = f"message:{request.id}"
    try:
        lost = engine.attempts.begin(key)
        if lost is None:
            raise TransientError("another worker is at it, or was lost a moment ago")
        if lost >= engine.policy.attempts:
            engine.dead.bury(_letter(engine, request, f"{lost} workers were lost while they took it in", lost))
        else:
            with engine.keeper.hold(lambda: engine.attempts.renew(key), lambda: None):
                _take_in(engine, request, key, accept)
        engine.attempts.end(key)
    except TransientError as error:
        time.sleep(PAUSE)
        raise Reject(error, requeue=True) from error


def _take_in(engine: Engine, request: Any, key: str, accept: Callable[[], object]) -> None:
    try:
        accept()
    except (TransientError, UsageError):
        engine.attempts.end(key)
        raise
    except Exception as error:
        engine.dead.bury(_letter(engine, request, f"{type(error).__name__}: {error}", 1))
        engine.attempts.end(key)
        raise


def _letter(engine: Engine, request: Any, reason: str, attempts: int) -> DeadLetter:
    return DeadLetter(
        letter_id=letter_id_of(str(request.id)),
        reason=reason,
        time=engine.now(),
        attempts=attempts,
        queue=COORDINATOR_QUEUE,
        headers={"task": request.task, "id": request.id},
        body=canonical([list(request.args or ()), dict(request.kwargs or {}), {}]),
    )
