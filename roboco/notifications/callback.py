"""Callbacks: Celery tasks of the caller's application, which the coordinator sends to its broker."""

import json
import logging
from typing import Any

from celery import Celery
from celery.canvas import Signature

from roboco.broker.app import callback_settings
from roboco.broker.broker_error import translating_errors
from roboco.broker.broker_identity import same_broker
from roboco.broker.names import BROKER_KEY, ENDED_TASK
from roboco.domain.notification import Notification, NotifyTarget, callback_queue, check_callback
from roboco.domain.url import strip_credentials
from roboco.errors import UsageError
from roboco.redis.server_error import CALLBACK_BROKER_URL_SETTING

_log = logging.getLogger(__name__)


class CallbackSender:
    """Sends the Celery tasks that receive notifications, if `allowed` names them. It declares no queue of the caller.

    The coordinator checks each callback again, whichever service has submitted the task. So a tenant can reach no other
    Celery task and no other queue.
    """

    def __init__(self, broker_url: str, allowed: tuple[str, ...] = ()) -> None:
        self._allowed = allowed
        self._broker_url = broker_url
        self._app = Celery("roboco.callbacks", set_as_current=False)
        self._app.conf.update(callback_settings(broker_url))

    def deliver(self, target: NotifyTarget, notification: Notification) -> None:
        """Send the Celery task with the notification as its first argument. Its id is the same in every attempt.

        The Celery task that continues a canvas gets the names of task and notification instead, and reads the
        workspace. Raise UsageError if the callback is not allowed, and TransientError if the broker fails.
        """
        self._check(target)
        given: dict[str, Any] = target.celery or {}
        queue = callback_queue(target)
        options = {"queue": queue} if queue else {}
        args, kwargs, immutable = (
            tuple(given.get("args") or ()),
            given.get("kwargs") or {},
            bool(given.get("immutable")),
        )
        signature: Any = Signature(given["task"], args, kwargs, options=options, immutable=immutable, app=self._app)
        sent: dict[str, Any] = {"task_id": notification.notification_id, "declare": [], "serializer": "json"}
        with translating_errors(target.label, CALLBACK_BROKER_URL_SETTING):
            if target.confirmed:
                self._warn_of_broker(target, notification)
                signature.apply_async(kwargs={"task_id": notification.task_id, "name": notification.name}, **sent)
            else:
                signature.apply_async((notification.body(),), argsrepr=repr((notification.notification_id,)), **sent)

    def _warn_of_broker(self, target: NotifyTarget, notice: Notification) -> None:
        """Log a warning if the waiting application has another broker, as far as the addresses show that."""
        kept = json.loads(target.continuation or "{}")
        own = str(kept.get(BROKER_KEY) or "") if isinstance(kept, dict) else ""
        if not same_broker(own, self._broker_url):
            _log.warning(
                "the end of task %s is sent to %s, and the broker of the application that waits for it is %s: if these "
                "are two brokers, set ROBOCO_CALLBACK_BROKER_URL of the coordinators to the second",
                notice.task_id,
                strip_credentials(self._broker_url),
                strip_credentials(own)[:500],
            )

    def _check(self, target: NotifyTarget) -> None:
        """Raise UsageError unless the callback is allowed, or continues the canvas of `roboco.team`."""
        if not target.confirmed:
            check_callback(target, self._allowed)
        elif target.label != ENDED_TASK:
            raise UsageError(f"callback {target.label!r}: 'confirmed' is possible for {ENDED_TASK!r} only")
