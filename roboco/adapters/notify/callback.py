"""Callbacks: Celery tasks of the shop's own, sent to its broker."""

from typing import Any

from celery import Celery
from celery.canvas import Signature

from roboco.adapters.celery.config import callback_configuration
from roboco.adapters.celery.dispatcher import sending
from roboco.adapters.celery.names import ENDED
from roboco.domain.notify import Notice, Notify, check_callback, check_plain
from roboco.errors import UsageError


class Callbacks:
    """Sends the Celery tasks that hear of a task, if `allowed` names them. Queues are the shop's: it declares none.

    The coordinator checks them, whoever has submitted the task: a tenant reaches no Celery task by that, and no queue.
    """

    def __init__(self, broker_url: str, allowed: tuple[str, ...] = ()) -> None:
        self._allowed = allowed
        self._app = Celery("roboco.callbacks", set_as_current=False)
        self._app.conf.update(callback_configuration(broker_url))

    def deliver(self, target: Notify, notice: Notice) -> None:
        """Send the Celery task, with the notice as its first argument; its id is the same in every try.

        What goes on in a canvas gets the names of task and notice instead, and finds the rest in the workspace.
        """
        self._check(target)
        given: dict[str, Any] = target.celery or {}
        queue = check_plain(target)
        options = {"queue": queue} if queue else {}
        args, kwargs, immutable = (
            tuple(given.get("args") or ()),
            given.get("kwargs") or {},
            bool(given.get("immutable")),
        )
        signature: Any = Signature(given["task"], args, kwargs, options=options, immutable=immutable, app=self._app)
        sent: dict[str, Any] = {"task_id": notice.notice_id, "declare": [], "serializer": "json"}
        with sending(target.named):
            if target.confirmed:
                signature.apply_async(kwargs={"task_id": notice.task_id, "name": notice.name}, **sent)
            else:
                signature.apply_async((notice.body(),), argsrepr=repr((notice.notice_id,)), **sent)

    def _check(self, target: Notify) -> None:
        """UsageError unless it is allowed, or goes on in a canvas: only `roboco.team` submits such a one."""
        if not target.confirmed:
            check_callback(target, self._allowed)
        elif target.named != ENDED:
            raise UsageError(f"callback {target.named!r} cannot be confirmed: only {ENDED!r} can")
