"""The dispatcher on Celery: messages of ids and numbers, sent by name."""

from typing import Any

from celery import Celery
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from roboco.adapters.celery.names import ADVANCE, TOOL, TURN
from roboco.errors import TransientError
from roboco.ports import CallOrder, TurnOrder

KILL_AFTER = 2.0
"""Seconds that a tool has to end after it was told that its time is up."""


class CeleryDispatcher:
    """Sends by name. Arguments shown in Flower are the message's own, with the agent or tool beside them."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    def advance(self, task_id: str) -> None:
        """Have the coordinator look at the task."""
        self._send(ADVANCE, {"task_id": task_id}, "")

    def turn(self, order: TurnOrder, agent: str) -> None:
        """Have an agent worker make the turn."""
        arguments = {"task_id": order.task_id, "seq": order.seq, "epoch": order.epoch, "attempt": order.attempt}
        self._send(TURN, arguments, agent)

    def tool(self, order: CallOrder, name: str, timeout: float) -> None:
        """Have a tool worker make the call, and end it after `timeout` seconds."""
        arguments = {
            "task_id": order.task_id,
            "seq": order.seq,
            "epoch": order.epoch,
            "call_id": order.call_id,
            "attempt": order.attempt,
        }
        self._send(TOOL, arguments, name, soft_time_limit=timeout, time_limit=timeout + KILL_AFTER)

    def _send(self, name: str, arguments: dict[str, Any], shown: str, **options: Any) -> None:
        described = repr(arguments if not shown else {"by": shown} | arguments)
        try:
            self._app.send_task(name, kwargs=arguments, kwargsrepr=described, ignore_result=True, **options)
        except (KombuError, RedisError, OSError) as error:
            raise TransientError(
                f"the broker does not take {name!r}: {error}; check ROBOCO_BROKER_URL and ROBOCO_REDIS_URL"
            ) from error
