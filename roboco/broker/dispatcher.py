"""dispatcher: the dispatcher on Celery. Its messages hold ids and numbers, and name their Celery task.

The id of a Celery task starts with the task's id and a "/", which no task id contains. In Flower a search for
`order-17/` finds everything of task order-17 and nothing of others, sorted by id in the order of the history. An
attempt that is dispatched again has the same id, so that it is one row.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from celery import Celery

from roboco.broker.broker_error import translating_errors
from roboco.broker.broker_fault import write_fault
from roboco.broker.names import ADVANCE_TASK, LIST_TOOLS_TASK, NOTIFY_TASK, TOOL_TASK, TURN_TASK
from roboco.broker.queues import SENT_AT, FairQueues, queue_description, read_queue_stats, sent_at
from roboco.domain.status import Priority
from roboco.errors import TransientError
from roboco.ports.assignment import ListingRequest, ToolAssignment, TurnAssignment
from roboco.ports.dispatcher import AttemptStatus
from roboco.ports.snapshot import Phase

CONFIRM_TIMEOUT = 5.0
"""Seconds within which a broker with confirms has to confirm a message."""
CALL_ID_CHARS: Final = 11
"""Characters of a call's id in the id of its Celery task: they distinguish the calls of one step."""
KILL_GRACE = 2.0
"""Seconds that a tool has to end after the exception of its soft time limit."""
NODE_SETTING: Final = "roboco_node"
"""The setting with the node name of this process's worker, which sends the events of lost attempts."""

_log = logging.getLogger(__name__)


class CeleryDispatcher:
    """Sends messages whose ids start with the task's id. Flower shows the agent or tool, and the step."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._queues = FairQueues(app)

    def advance(self, task_id: str) -> None:
        """Send `roboco.advance`: a coordinator runs a pass over the task."""
        self._send(ADVANCE_TASK, {"task_id": task_id}, f"{task_id}/advance/{_milliseconds()}", task_id)

    def turn(self, assignment: TurnAssignment, agent: str) -> None:
        """Send `roboco.turn`: an agents worker runs the turn. If it replaces an attempt, show that one as failed."""
        self._send_work(TURN_TASK, assignment, agent)

    def tool(self, assignment: ToolAssignment, name: str, timeout: float) -> None:
        """Send `roboco.tool`: a tools worker runs the call, for `timeout` seconds at most."""
        self._send_work(TOOL_TASK, assignment, name, soft_time_limit=timeout, time_limit=timeout + KILL_GRACE)

    def list_tools(self, request: ListingRequest) -> None:
        """Send `roboco.list_tools`: a tools worker lists the tools of an MCP server."""
        message_id = f"{request.task_id}/mcp/{request.server}/{_milliseconds()}"
        self._send(LIST_TOOLS_TASK, dict(vars(request)), message_id, f"{request.server}, {request.task_id}")

    def report_attempt_end(self, assignment: TurnAssignment | ToolAssignment, name: str, status: AttemptStatus) -> None:
        """Send the event of the end of an attempt, for displays; `name` is its agent or tool.

        If the attempt's message is delivered after that, its worker's events win: Celery's tools keep a success.
        """
        event, fields = _ENDS[status]
        self._send_event(assignment, name, event, fields)

    def notify(self, task_id: str) -> None:
        """Send `roboco.notify`: a coordinator delivers the notifications of the task."""
        self._send(NOTIFY_TASK, {"task_id": task_id}, f"{task_id}/notify/{_milliseconds()}", task_id)

    def oldest_waiting_since(self, phase: Phase, task_id: str, priority: Priority) -> float | None:
        """Return when the oldest message in the queue was sent, or None if there is none or that is not known."""
        name = {Phase.TURN: TURN_TASK, Phase.TOOLS: TOOL_TASK}.get(phase, ADVANCE_TASK)
        with translating_errors(name):
            oldest = self._queues.oldest_headers(name, task_id, None if name == ADVANCE_TASK else priority)
        return min(filter(None, map(sent_at, oldest)), default=None)

    def describe_queue(self, pool: str) -> str:
        """Return how many messages wait for the pool, with the remedy, or "" if none waits."""
        [found] = read_queue_stats(self._app, [f"roboco.{pool}"])
        return queue_description(found, pool)

    def fault(self) -> str:
        """Return why the broker takes no messages now, with the remedy, or "". It may take a second."""
        return write_fault(self._app)

    def backlog(self, task_id: str) -> int:
        """Return the queued turns and coordinator passes in the queues of this task."""
        with translating_errors(TURN_TASK):
            return self._queues.count_waiting(TURN_TASK, task_id) + self._queues.count_waiting(ADVANCE_TASK, task_id)

    def _send_work(self, name: str, assignment: TurnAssignment | ToolAssignment, who: str, **limits: float) -> None:
        priority = assignment.priority
        description = describe_work(who, assignment)
        self._send(name, _fields(assignment), message_id_of(assignment), description, priority=priority, **limits)
        self._end_replaced(assignment, who)

    def _send(self, name: str, arguments: dict[str, Any], message_id: str, description: str, **options: Any) -> None:
        priority: Priority | None = options.pop("priority", None)
        options |= {"argsrepr": description, "kwargsrepr": repr(arguments), "headers": {SENT_AT: time.time()}}
        with translating_errors(name):
            # Before the producer, which holds a connection of the pool: threads that hold all of them would wait for
            # each other's.
            queue = self._queues.choose(name, arguments["task_id"], priority)
            options["priority"] = self._queues.priority_number(priority)
            with self._app.producer_or_acquire() as producer, dropping_connection(producer):
                options |= {"producer": producer, "confirm_timeout": CONFIRM_TIMEOUT, "ignore_result": True}
                self._app.send_task(name, kwargs=arguments, task_id=message_id, queue=queue, **options)

    def _end_replaced(self, assignment: TurnAssignment | ToolAssignment, name: str) -> None:
        """Show the attempt as failed that this one replaces, if there was one."""
        if assignment.attempt > 1:
            reason = "lost with its worker, or cut off in its model's reply"
            event, fields = _failed(f"{reason}: attempt {assignment.attempt} replaces it")
            self._send_event(replace(assignment, attempt=assignment.attempt - 1), name, event, fields)

    def _send_event(self, order: TurnAssignment | ToolAssignment, who: str, event: str, fields: dict[str, Any]) -> None:
        """Send an event in place of the attempt's worker. It may be the first event of that Celery task."""
        node = self._app.conf.get(NODE_SETTING)
        if node is None:
            return
        message_id = message_id_of(order)
        name = TURN_TASK if isinstance(order, TurnAssignment) else TOOL_TASK
        fields = fields | {"name": name, "args": describe_work(who, order)}
        events: Any = self._app.events
        try:
            with translating_errors(event), events.default_dispatcher(hostname=node) as dispatcher:
                dispatcher.send(event, uuid=message_id, **fields)
        except TransientError as error:
            _log.warning("the event of the end of %s is not sent: %s", message_id, error)


def message_id_of(order: TurnAssignment | ToolAssignment) -> str:
    """Return the id of the Celery task that runs this attempt. That of a call has the position of its result."""
    if isinstance(order, TurnAssignment):
        return f"{order.task_id}/{order.seq:04}/turn/{order.attempt}"
    return f"{order.task_id}/{order.seq + 1:04}/tool/{order.call_id[:CALL_ID_CHARS]}/{order.attempt}"


def describe_work(name: str, order: TurnAssignment | ToolAssignment) -> str:
    """Return the arguments of a turn or call for display: agent or tool, task and step."""
    again = f", attempt {order.attempt}" if order.attempt > 1 else ""
    return f"{name}, {order.task_id}, step {order.seq}{again}"


def _milliseconds() -> str:
    return f"{time.time() * 1000:.0f}"


def _failed(reason: str) -> tuple[str, dict[str, Any]]:
    return "task-failed", {"exception": reason, "traceback": ""}


_ENDS: Final[dict[AttemptStatus, tuple[str, dict[str, Any]]]] = {
    AttemptStatus.DONE: ("task-succeeded", {"result": repr(str(AttemptStatus.DONE))}),
    AttemptStatus.FAILED: _failed(str(AttemptStatus.FAILED)),
    AttemptStatus.LOST: _failed(f"{AttemptStatus.LOST}, at the last attempt"),
    AttemptStatus.SUPERSEDED: ("task-revoked", {"terminated": False, "signum": None, "expired": False}),
}
"""The event of the end of an attempt, and its fields."""


def _fields(order: TurnAssignment | ToolAssignment) -> dict[str, Any]:
    """Return the arguments of an order. A normal priority is left out: workers of an older release do not know it."""
    fields = dict(vars(order))
    return fields if order.priority != "normal" else {name: fields[name] for name in fields if name != "priority"}


@contextmanager
def dropping_connection(producer: Any) -> Iterator[None]:
    """Drop the connection after an error: an orderly close would wait for a broker that may not answer."""
    try:
        yield
    except Exception:
        connection = producer.__connection__
        if connection is not None and connection.transport.driver_type == "amqp":
            connection.collect()
        raise
