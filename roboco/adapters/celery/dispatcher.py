"""dispatcher: the dispatcher on Celery. Its messages hold ids and numbers, and name their Celery task."""

import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, Final

from amqp.exceptions import AMQPError
from celery import Celery
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from roboco.adapters.celery import display as shown
from roboco.adapters.celery.fair_queues import Lanes
from roboco.adapters.celery.names import ADVANCE, LIST_TOOLS, NOTIFY, TOOL, TURN
from roboco.adapters.redis.refusal import BROKER_SETTING, refusal
from roboco.domain.history.priority import Priority
from roboco.errors import TransientError
from roboco.ports import AttemptEnd, CallOrder, ListOrder, Phase, TurnOrder

SENT_AT: Final = "roboco_sent_at"
"""The header with the time at which a message was sent, in Unix seconds."""
CONFIRMED = 5.0
"""Seconds within which a broker with confirms has to confirm a message."""
KILL_AFTER = 2.0
"""Seconds that a tool has to end after the exception of its soft time limit."""
NODE: Final = "roboco_node"
"""The setting with the node name of this process's worker, which sends the events of lost attempts."""

_log = logging.getLogger(__name__)


class CeleryDispatcher:
    """Sends messages whose ids start with the task's id. Flower shows the agent or tool, and the step."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._lanes = Lanes(app)

    def advance(self, task_id: str) -> None:
        """Send `roboco.advance`: a coordinator runs a pass over the task."""
        now = time.time()
        self._send(ADVANCE, {"task_id": task_id}, shown.look_id(task_id, now), task_id)

    def turn(self, order: TurnOrder, agent: str) -> None:
        """Send `roboco.turn`: an agents worker runs the turn. If it replaces an attempt, show that one as failed."""
        self._send(TURN, _fields(order), shown.turn_id(order), shown.of_work(agent, order), priority=order.priority)
        if order.attempt > 1:
            self._show(replace(order, attempt=order.attempt - 1), agent, "task-failed", _followed_by(order.attempt))

    def tool(self, order: CallOrder, name: str, timeout: float) -> None:
        """Send `roboco.tool`: a tools worker runs the call, for `timeout` seconds at most."""
        options = {"soft_time_limit": timeout, "time_limit": timeout + KILL_AFTER, "priority": order.priority}
        self._send(TOOL, _fields(order), shown.call_task_id(order), shown.of_work(name, order), **options)
        if order.attempt > 1:
            self._show(replace(order, attempt=order.attempt - 1), name, "task-failed", _followed_by(order.attempt))

    def list_tools(self, order: ListOrder) -> None:
        """Send `roboco.list_tools`: a tools worker lists the tools of an MCP server."""
        described = f"{order.server}, {order.task_id}"
        self._send(LIST_TOOLS, asdict(order), shown.listing_id(order, time.time()), described)

    def ended(self, order: TurnOrder | CallOrder, who: str, end: AttemptEnd) -> None:
        """Send the event of the end of an attempt, for displays; `who` is its agent or tool.

        If the attempt's message is delivered after that, its worker's events win: Celery's tools keep a success.
        """
        match end:
            case AttemptEnd.DONE:
                self._show(order, who, "task-succeeded", {"result": repr(str(end))})
            case AttemptEnd.FAILED:
                self._show(order, who, "task-failed", {"exception": str(end), "traceback": ""})
            case AttemptEnd.LOST:
                self._show(order, who, "task-failed", {"exception": f"{end}, at the last attempt", "traceback": ""})
            case AttemptEnd.PASSED_OVER:
                self._show(order, who, "task-revoked", {"terminated": False, "signum": None, "expired": False})

    def notify(self, task_id: str) -> None:
        """Send `roboco.notify`: a coordinator delivers the notifications of the task."""
        self._send(NOTIFY, {"task_id": task_id}, shown.notify_id(task_id, time.time()), task_id)

    def waiting_since(self, phase: Phase, task_id: str, priority: Priority) -> float | None:
        """Return when the oldest message in the queue was sent, or None if there is none or that is not known."""
        name = {Phase.TURN: TURN, Phase.TOOLS: TOOL}.get(phase, ADVANCE)
        with sending(name):
            oldest = self._lanes.oldest(name, task_id, None if name == ADVANCE else priority)
        return min(filter(None, map(sent_at, oldest)), default=None)

    def backlog(self, task_id: str) -> int:
        """Return the queued turns and coordinator passes in the queues of this task."""
        with sending(TURN):
            return self._lanes.waiting(TURN, task_id) + self._lanes.waiting(ADVANCE, task_id)

    def _send(self, name: str, arguments: dict[str, Any], ident: str, described: str, **options: Any) -> None:
        priority: Priority | None = options.pop("priority", None)
        options |= {"argsrepr": described, "kwargsrepr": repr(arguments)}
        headers = {SENT_AT: time.time()}
        with sending(name), self._app.producer_or_acquire() as producer, _dropping(producer):
            options["queue"] = self._lanes.shortest(name, arguments["task_id"], priority)
            options["priority"] = self._lanes.number(priority)
            options |= {"producer": producer, "confirm_timeout": CONFIRMED, "ignore_result": True, "headers": headers}
            self._app.send_task(name, kwargs=arguments, task_id=ident, **options)

    def _show(self, order: TurnOrder | CallOrder, who: str, event: str, fields: dict[str, Any]) -> None:
        """Send an event in place of the attempt's worker. It may be the first event of that Celery task."""
        node = self._app.conf.get(NODE)
        if node is None:
            return
        if isinstance(order, TurnOrder):
            name, ident = TURN, shown.turn_id(order)
        else:
            name, ident = TOOL, shown.call_task_id(order)
        fields |= {"name": name, "args": shown.of_work(who, order)}
        events: Any = self._app.events
        try:
            with sending(event), events.default_dispatcher(hostname=node) as dispatcher:
                dispatcher.send(event, uuid=ident, **fields)
        except TransientError as error:
            _log.warning("the event of the end of %s is not sent: %s", ident, error)


def _followed_by(attempt: int) -> dict[str, Any]:
    why = f"lost with its worker, or cut off in its model's reply: attempt {attempt} replaces it"
    return {"exception": why, "traceback": ""}


def _fields(order: TurnOrder | CallOrder) -> dict[str, Any]:
    """Return the arguments of an order. A normal priority is left out: workers of an older release do not know it."""
    fields = asdict(order)
    return fields if order.priority != "normal" else {name: fields[name] for name in fields if name != "priority"}


@contextmanager
def sending(name: str) -> Iterator[None]:
    """Raise TransientError in place of the errors of a broker that does not accept the message `name`."""
    try:
        yield
    except (KombuError, AMQPError, RedisError, OSError) as error:
        problem = refusal(error, BROKER_SETTING) or f"{error}; check ROBOCO_BROKER_URL and ROBOCO_REDIS_URL"
        raise TransientError(f"the broker does not take {name!r}: {problem}") from error


@contextmanager
def _dropping(producer: Any) -> Iterator[None]:
    """Drop the connection after an error: an orderly close would wait for a broker that may not answer."""
    try:
        yield
    except Exception:
        connection = producer.__connection__
        if connection is not None and connection.transport.driver_type == "amqp":
            connection.collect()
        raise


def sent_at(headers: Any) -> float | None:
    """Return when the message with these headers was sent, in Unix seconds, or None if Roboco did not send it."""
    try:
        at = float(headers[SENT_AT])
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
    return at if math.isfinite(at) else None
