"""The Celery tasks: each body is a call into the engine.

`turn` and `tool` acknowledge early: leases guard them, and a long Celery task must not exceed the broker's visibility
timeout. Messages from outside acknowledge late, since nothing else records them yet. If a server does not answer, they
return to their queue. An `advance` may get lost: the sweeper repeats it.

The Celery tasks of the coordinator have a time limit. At the soft one (ROBOCO_COORDINATOR_LIMIT) a message from outside
returns to its queue; it also returns if its process is killed at the hard one. Each of these counts as an attempt, and
after ROBOCO_ATTEMPTS attempts the message becomes a dead letter. `advance` and `notify` fail at the limit, and the
sweeper repeats them. `tool` and `list_tools` have limits of their own. `turn` has none: its model profile limits it.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from billiard.exceptions import TimeLimitExceeded
from celery import Celery, Task
from celery.exceptions import Reject, SoftTimeLimitExceeded

from roboco.adapters.celery.dispatcher import KILL_AFTER
from roboco.adapters.celery.names import (
    ADVANCE,
    FORK,
    LIST_TOOLS,
    NOTIFY,
    OUTSIDE,
    SUBMIT,
    TOOL,
    TURN,
)
from roboco.client.commands import take
from roboco.engine.coordinator.advance import advance as engine_advance
from roboco.engine.engine import Engine
from roboco.engine.execution.tool_call import overdue
from roboco.engine.execution.tool_call import tool as engine_tool
from roboco.engine.execution.turn import turn as engine_turn
from roboco.engine.notifications import deliver
from roboco.engine.record.tool_listings import list_tools as engine_list_tools
from roboco.errors import Conflict, Overloaded, TeamFailed, TransientError, UsageError
from roboco.ports import CallOrder, ListOrder, TurnOrder
from roboco.workers.ended import call_ended, ended
from roboco.workers.orders import order_of, task_of
from roboco.workers.process_engine import ProcessEngine
from roboco.workers.refusal import letter_of, refuse

PAUSE = 1.0
"""Seconds before a message from outside returns to its queue because a server does not answer."""
GRACE = 30.0
"""Seconds that a coordinator's Celery task has to end after its soft time limit."""
LONGEST_CALL = 86_400.0
"""Seconds of a tool call whose message names no limit: the longest that a team can give one."""
LONGEST_LISTING = 900.0
"""Seconds of a listing of an MCP server's tools: more than three times the longest `connect_timeout`."""
SHOWN: dict[str, Any] = {"Request": "roboco.adapters.celery.redacted_request:ShownRequest"}
SAFE: dict[str, Any] = {**SHOWN, "acks_late": True, "reject_on_worker_lost": True, "throws": (UsageError, Overloaded)}


GIVEN_UP = "{} workers were lost or exceeded the time limit (ROBOCO_COORDINATOR_LIMIT) while they processed it"
"""The reason of the dead letter of a message from outside for which no attempt has finished."""
Read = TypeVar("Read")

CREATING = (SUBMIT, FORK)
"""The Celery tasks that create a task. Without a `task_id` the id of the message names it."""


class ToolTask(Task):  # type: ignore[type-arg]  # celery's stubs make Task generic, celery does not
    """The Celery task of a tool call. If the pool kills it, the parent process closes the call."""

    engine: ProcessEngine

    def on_failure(self, exc: BaseException, task_id: str, args: Any, kwargs: dict[str, Any], einfo: Any) -> None:
        """Close the call if it exceeded its time limit. After any other failure its lease expires."""
        if isinstance(exc, TimeLimitExceeded):
            timeout = float(exc.args[0]) - KILL_AFTER if exc.args else 0.0
            overdue(self.engine(), order_of(CallOrder, (), kwargs), timeout)


def register(app: Celery, engine: ProcessEngine) -> None:
    """Give the application Roboco's Celery tasks."""
    limit = engine.settings.coordinator_limit
    for name in OUTSIDE:
        _add(app, name, _taking(engine, name), **SAFE, **_limits(limit))
    look = {"acks_late": True, "reject_on_worker_lost": False, "throws": (TransientError, UsageError)} | _limits(limit)

    def advance(self: Any, *given: Any, **named: Any) -> None:
        task_id = _read(engine(), self.request, lambda: task_of(given, named))
        _within(limit, f"roboco.advance of task {task_id!r}", lambda: engine_advance(engine(), task_id))

    def notify(self: Any, *given: Any, **named: Any) -> None:
        task_id = _read(engine(), self.request, lambda: task_of(given, named))
        _within(limit, f"roboco.notify of task {task_id!r}", lambda: deliver(engine(), task_id))

    def turn(self: Any, *given: Any, **named: Any) -> str:
        order = _read(engine(), self.request, lambda: order_of(TurnOrder, given, named))
        return ended(order.task_id, engine_turn(engine(), order))

    def tool(self: Any, *given: Any, **named: Any) -> None:
        order = _read(engine(), self.request, lambda: order_of(CallOrder, given, named))
        call_ended(engine_tool(engine(), order))

    def list_tools(self: Any, *given: Any, **named: Any) -> None:
        order = _read(engine(), self.request, lambda: order_of(ListOrder, given, named))
        engine_list_tools(engine(), order)

    _add(app, ADVANCE, advance, **SHOWN, **look)
    _add(app, NOTIFY, notify, **SHOWN, **look)
    _add(app, TURN, turn, **SHOWN, throws=(TransientError, TeamFailed, Conflict, UsageError))
    _add(app, LIST_TOOLS, list_tools, **SHOWN, throws=(TransientError, UsageError), **_limits(LONGEST_LISTING))
    of_tool = type("BoundToolTask", (ToolTask,), {"engine": engine})
    _add(app, TOOL, tool, **SHOWN, throws=(TransientError, UsageError), base=of_tool, **_limits(LONGEST_CALL))


def _add(app: Celery, name: str, run: Callable[..., object], **options: Any) -> None:
    register_as: Any = app.task(name=name, bind=True, **options)
    register_as(run)


def _limits(seconds: float) -> dict[str, float]:
    return {"soft_time_limit": seconds, "time_limit": seconds + GRACE}


def _within(limit: float, work: str, do: Callable[[], None]) -> None:
    """Do the work; raise TransientError if it exceeds the time limit."""
    try:
        do()
    except SoftTimeLimitExceeded as error:
        raise TransientError(
            f"{work} took longer than {limit:g} s (ROBOCO_COORDINATOR_LIMIT); the sweeper repeats it"
        ) from error


def _read(engine: Engine, request: Any, read: Callable[[], Read]) -> Read:
    """Return the arguments as `read` does. If it refuses them, store the message as a dead letter and raise."""
    try:
        return read()
    except UsageError as error:
        refuse(engine, request, error, f"invalid arguments: {error}")
        raise


def _taking(engine: ProcessEngine, name: str) -> Callable[..., None]:
    def take_in(self: Any, *given: Any, **arguments: Any) -> None:
        if given:
            _read(engine(), self.request, lambda: _refuse(given))
        named = {"task_id": f"task_{self.request.id}"} | arguments if name in CREATING else arguments
        _or_again(engine(), self.request, lambda: take(engine(), engine.settings, name, named, self.request.id))

    return take_in


def _refuse(given: tuple[Any, ...]) -> None:
    raise UsageError(f"expected arguments by name (found {list(given)!r:.80})")


def _or_again(engine: Engine, request: Any, accept: Callable[[], object]) -> None:
    """Accept a message from outside. Return it to its queue if a server does not answer or the time limit is exceeded.

    If every attempt loses its worker or exceeds the limit, or if the message fails by an unexpected error, it is stored
    as a dead letter. So is a refused message that was to create a task, unless too much waits already (Overloaded).
    """
    key = f"message:{request.id}"
    try:
        lost = engine.attempts.begin(key)
        if lost is None:
            raise TransientError("another worker is processing this message, or was lost less than one lease ago")
        if lost >= engine.policy.attempts:
            engine.dead.add(letter_of(engine, request, GIVEN_UP.format(lost), lost))
        else:
            with engine.heartbeat.renewing(lambda: engine.attempts.renew(key), lambda: None):
                _take_in(engine, request, key, accept)
        engine.attempts.end(key)
    except Overloaded:
        raise  # the producer submits again later: a message that returns to its queue would add to the load
    except (TransientError, SoftTimeLimitExceeded) as error:
        time.sleep(PAUSE)
        raise Reject(error, requeue=True) from error


def _take_in(engine: Engine, request: Any, key: str, accept: Callable[[], object]) -> None:
    try:
        accept()
    except SoftTimeLimitExceeded:
        raise  # it counts as an attempt, like the loss of a worker
    except Overloaded as error:
        engine.attempts.end(key)
        refuse(engine, request, error, None)  # many of these would push real losses out of the dead letters
        raise
    except TransientError:
        engine.attempts.end(key)
        raise
    except UsageError as error:
        engine.attempts.end(key)
        refuse(engine, request, error, f"refused: {error}" if request.task in CREATING else None)
        raise
    except Exception as error:
        engine.dead.add(letter_of(engine, request, f"{type(error).__name__}: {error}", 1))
        engine.attempts.end(key)
        raise
