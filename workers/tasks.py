"""The Celery tasks: each body parses its arguments, calls the engine and translates its result.

Early acknowledgement: `turn` and `tool` are acknowledged before they run. Leases guard them: if a worker dies, a lease
expires, and the sweeper dispatches another attempt. If they were acknowledged late, the broker would deliver a turn or
call that runs longer than its visibility timeout to a second worker.

Late acknowledgement: messages from outside are acknowledged after they were accepted, because until then only the
broker records them. If a server does not answer, they return to their queue (see `engine/accept/guard.py`). `advance`
and `notify` are acknowledged late too, but one may get lost: the sweeper repeats it.

The Celery tasks of the coordinator have a time limit. At the soft one (COORDINATOR_TIMEOUT) a message from
outside returns to its queue; it also returns if its process is killed at the hard one. Each of these counts as an
attempt, and after ROBOCO_MAX_ATTEMPTS attempts the message becomes a dead letter. `advance` and `notify` fail at the
limit, and the sweeper repeats them. `tool` and `list_tools` have limits of their own. `turn` has none: its model
profile limits it.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from billiard.exceptions import TimeLimitExceeded
from celery import Celery, Task
from celery.exceptions import Reject, SoftTimeLimitExceeded
from celery.result import allow_join_result

from roboco.broker.dispatcher import KILL_GRACE
from roboco.broker.names import (
    ADVANCE_TASK,
    COMMAND_TASKS,
    LIST_TOOLS_TASK,
    NOTIFY_TASK,
    TASK_ANSWER_TASK,
    TOOL_TASK,
    TURN_TASK,
)
from roboco.client.commands import handle, publish_refusal
from roboco.engine.accept import guard
from roboco.engine.coordinate.advance import advance as engine_advance
from roboco.engine.coordinate.shop_task import TaskAnswer, accept_task_answer
from roboco.engine.engine import Engine
from roboco.engine.operate.notification_delivery import deliver
from roboco.engine.record.tool_listings import list_tools as engine_list_tools
from roboco.engine.run.tool_call import close_overdue_call, run_call
from roboco.engine.run.turn import run_turn
from roboco.errors import Conflict, Forbidden, Overloaded, TaskFailed, TransientError, UsageError
from roboco.ports.assignment import ListingRequest, ToolAssignment, TurnAssignment
from roboco.workers.arguments import parse_assignment, parse_command, parse_task_answer, parse_task_id
from roboco.workers.celery_result import call_result, message_result, turn_result
from roboco.workers.incoming_message import CeleryMessage
from roboco.workers.process_engine import ProcessEngine

COORDINATOR_TIMEOUT = 300.0
"""Seconds that a coordinator may take for one message."""
HARD_LIMIT_GRACE = 30.0
"""Seconds that a coordinator's Celery task has to end after its soft time limit."""
MAX_CALL_SECONDS = 86_400.0
"""Time limit of a tool call whose message names none: the longest that a team can set."""
MAX_LISTING_SECONDS = 900.0
"""Time limit of a listing of an MCP server's tools: more than three times the longest `connect_timeout`."""
REDACTED: dict[str, Any] = {"Request": "roboco.broker.redacted_request:RedactedRequest"}
"""Options of a Celery task whose arguments and errors Celery's events show without content of users."""
DURABLE: dict[str, Any] = {
    **REDACTED,
    "acks_late": True,
    "reject_on_worker_lost": True,
    "throws": (UsageError, Overloaded),
}
"""Options of a Celery task whose message only the broker records: it is redelivered if its worker dies."""
Parsed = TypeVar("Parsed")


class ToolTask(Task):  # type: ignore[type-arg]  # celery's stubs make Task generic, celery does not
    """The Celery task of a tool call. If the pool kills it, the parent process closes the call."""

    engine: ProcessEngine

    def on_failure(self, exc: BaseException, task_id: str, args: Any, kwargs: dict[str, Any], einfo: Any) -> None:
        """Close the call if it exceeded its time limit. After any other failure its lease expires."""
        if isinstance(exc, TimeLimitExceeded):
            timeout = float(exc.args[0]) - KILL_GRACE if exc.args else 0.0
            close_overdue_call(self.engine(), parse_assignment(ToolAssignment, (), kwargs), timeout)


def register(app: Celery, engine: ProcessEngine) -> None:
    """Register Roboco's Celery tasks with the application."""
    limit = COORDINATOR_TIMEOUT
    for name in COMMAND_TASKS:
        _add(app, name, _handler(engine, partial(_command, engine, name)), **DURABLE, **_limits(limit))
    _add(app, TASK_ANSWER_TASK, _handler(engine, partial(_task_answer, engine)), **DURABLE, **_limits(limit))
    check = {"acks_late": True, "reject_on_worker_lost": False, "throws": (TransientError, UsageError)} | _limits(limit)

    def advance(self: Any, *args: Any, **kwargs: Any) -> None:
        task_id = _parse(engine, self.request, lambda: parse_task_id(args, kwargs))
        _within(limit, f"roboco.advance of task {task_id!r}", lambda: engine_advance(engine(), task_id))

    def notify(self: Any, *args: Any, **kwargs: Any) -> None:
        task_id = _parse(engine, self.request, lambda: parse_task_id(args, kwargs))
        _within(limit, f"roboco.notify of task {task_id!r}", lambda: deliver(engine(), task_id))

    def turn(self: Any, *args: Any, **kwargs: Any) -> str:
        order = _parse(engine, self.request, lambda: parse_assignment(TurnAssignment, args, kwargs))
        return turn_result(order.task_id, run_turn(engine(), order))

    def tool(self: Any, *args: Any, **kwargs: Any) -> None:
        order = _parse(engine, self.request, lambda: parse_assignment(ToolAssignment, args, kwargs))
        with allow_join_result():  # of a Celery task of another application: those of this one have no results
            call_result(run_call(engine(), order))

    def list_tools(self: Any, *args: Any, **kwargs: Any) -> None:
        order = _parse(engine, self.request, lambda: parse_assignment(ListingRequest, args, kwargs))
        engine_list_tools(engine(), order)

    _add(app, ADVANCE_TASK, advance, **REDACTED, **check)
    _add(app, NOTIFY_TASK, notify, **REDACTED, **check)
    _add(app, TURN_TASK, turn, **REDACTED, throws=(TransientError, TaskFailed, Conflict, UsageError))
    _add(
        app,
        LIST_TOOLS_TASK,
        list_tools,
        **REDACTED,
        throws=(TransientError, UsageError),
        **_limits(MAX_LISTING_SECONDS),
    )
    base = type("BoundToolTask", (ToolTask,), {"engine": engine})
    _add(app, TOOL_TASK, tool, **REDACTED, throws=(TransientError, UsageError), base=base, **_limits(MAX_CALL_SECONDS))


def _add(app: Celery, name: str, run: Callable[..., object], **options: Any) -> None:
    register_as: Any = app.task(
        name=name, bind=True, shared=False, **options
    )  # not for other applications of the process
    register_as(run)


def _limits(seconds: float) -> dict[str, float]:
    return {"soft_time_limit": seconds, "time_limit": seconds + HARD_LIMIT_GRACE}


Accept = Callable[[], object]
"""Accepts a message from outside whose arguments are valid."""


def _command(engine: ProcessEngine, name: str, request: Any, args: Any, kwargs: Any) -> Accept:
    arguments = parse_command(name, request.id, args, kwargs)
    return lambda: handle(engine(), engine.settings, name, arguments, request.id)


def _task_answer(engine: ProcessEngine, request: Any, args: Any, kwargs: Any) -> Accept:
    given = parse_task_answer(args, kwargs)
    return lambda: handle_task_answer(engine(), given)


def handle_task_answer(engine: Engine, given: TaskAnswer) -> None:
    """Accept the answer of a shop's Celery task. If it is late, publish the error to followers and raise it."""
    try:
        accept_task_answer(engine, given)
    except Forbidden:
        raise  # anyone may have sent it: followers of the task would get as many events as messages
    except UsageError as error:
        publish_refusal(engine, given.task_id, error)
        raise


def _handler(engine: ProcessEngine, parse: Callable[[Any, Any, Any], Accept]) -> Callable[..., None]:
    """Return the body of a Celery task that accepts a message from outside. `parse` checks its arguments."""

    def command(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            process(self, args, kwargs)
        except MemoryError as error:  # outside of a counted attempt
            time.sleep(guard.REQUEUE_DELAY)
            raise Reject(error, requeue=True) from error

    def process(self: Any, args: Any, kwargs: Any) -> None:
        accept = _parse(engine, self.request, lambda: parse(self.request, args, kwargs))
        message_result(guard.process(engine(), CeleryMessage(engine(), self.request), accept))

    return command


def _parse(engine: ProcessEngine, request: Any, parse: Callable[[], Parsed]) -> Parsed:
    """Return the parsed arguments. If they are invalid, store the message as a dead letter and raise UsageError."""
    try:
        return parse()
    except UsageError as error:
        CeleryMessage(engine(), request).refuse(error, f"invalid arguments: {error}")
        raise


def _within(limit: float, operation: str, run: Callable[[], None]) -> None:
    """Run the operation; TransientError if it exceeds the time limit."""
    try:
        run()
    except SoftTimeLimitExceeded as error:
        raise TransientError(f"{operation} took longer than {limit:g} s; the sweeper repeats it") from error
