"""The dispatcher on Celery: messages of ids and numbers, sent by name."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from celery import Celery
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from roboco.adapters.celery.lanes import Lanes
from roboco.adapters.celery.names import ADVANCE, TOOL, TURN
from roboco.domain.priority import Priority
from roboco.errors import TransientError
from roboco.ports import CallOrder, Phase, TurnOrder

SENT_AT: Final = "roboco_sent_at"
"""The header that says when a message was sent, in Unix seconds."""
KILL_AFTER = 2.0
"""Seconds that a tool has to end after it was told that its time is up."""


class CeleryDispatcher:
    """Sends by name. Arguments shown in Flower are the message's own, with the agent or tool beside them."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._lanes = Lanes(app)

    def advance(self, task_id: str) -> None:
        """Have the coordinator look at the task."""
        self._send(ADVANCE, {"task_id": task_id}, "")

    def turn(self, order: TurnOrder, agent: str) -> None:
        """Have an agent worker make the turn."""
        arguments = {"task_id": order.task_id, "seq": order.seq, "epoch": order.epoch, "attempt": order.attempt}
        self._send(TURN, arguments, agent, order.priority)

    def tool(self, order: CallOrder, name: str, timeout: float) -> None:
        """Have a tool worker make the call, and end it after `timeout` seconds."""
        arguments = {
            "task_id": order.task_id,
            "seq": order.seq,
            "epoch": order.epoch,
            "call_id": order.call_id,
            "attempt": order.attempt,
        }
        self._send(TOOL, arguments, name, order.priority, soft_time_limit=timeout, time_limit=timeout + KILL_AFTER)

    def waiting_since(self, phase: Phase, task_id: str, priority: Priority) -> float | None:
        """When the oldest message in the queue was sent; None if there is none, or on a broker other than Redis."""
        name = {Phase.TURN: TURN, Phase.TOOLS: TOOL}.get(phase, ADVANCE)
        with sending(name):
            oldest = self._lanes.oldest(name, task_id, None if name == ADVANCE else priority)
        return min(filter(None, map(_sent_at, oldest)), default=None)

    def backlog(self, task_id: str) -> int:
        """How many turns and looks at tasks wait where those of this task would."""
        with sending(TURN):
            return self._lanes.waiting(TURN, task_id) + self._lanes.waiting(ADVANCE, task_id)

    def _send(
        self, name: str, arguments: dict[str, Any], shown: str, priority: Priority | None = None, **options: Any
    ) -> None:
        if priority not in (None, "normal"):
            arguments["priority"] = priority
        described = repr(arguments if not shown else {"by": shown} | arguments)
        headers = {SENT_AT: time.time()}
        with sending(name):
            self._app.send_task(
                name,
                kwargs=arguments,
                kwargsrepr=described,
                ignore_result=True,
                headers=headers,
                queue=self._lanes.shortest(name, arguments["task_id"], priority),
                priority=self._lanes.number(priority),
                **options,
            )


@contextmanager
def sending(name: str) -> Iterator[None]:
    """Turns the errors of a broker that does not take the message into TransientError."""
    try:
        yield
    except (KombuError, RedisError, OSError) as error:
        raise TransientError(
            f"the broker does not take {name!r}: {error}; check ROBOCO_BROKER_URL and ROBOCO_REDIS_URL"
        ) from error


def _sent_at(message: bytes) -> float | None:
    """When the message was sent, in Unix seconds; None for one that is not ours."""
    try:
        return float(json.loads(message)["headers"][SENT_AT])
    except (ValueError, KeyError, TypeError):
        return None
