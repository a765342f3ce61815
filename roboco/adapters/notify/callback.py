"""Callbacks: Celery signatures of the shop's own, sent to its broker."""

from typing import Any

from celery import Celery
from celery.canvas import maybe_signature

from roboco.adapters.celery.config import callback_configuration
from roboco.adapters.celery.dispatcher import sending
from roboco.domain.notify import Notice, Notify
from roboco.errors import UsageError


class Callbacks:
    """Sends the signatures that are told of a task. Queues are the shop's: none is declared here."""

    def __init__(self, broker_url: str) -> None:
        self._app = Celery("roboco.callbacks", set_as_current=False)
        self._app.conf.update(callback_configuration(broker_url))

    def deliver(self, target: Notify, notice: Notice) -> None:
        """Send the signature, with the notice as its first argument; its id is the same in every try.

        Who confirms gets the names of task and notice instead, and finds the rest in the workspace.
        """
        signature = self._signature(target)
        options: dict[str, Any] = {"task_id": notice.notice_id}
        if signature.get("subtask_type") is None:
            options["declare"] = []
        with sending(target.named):
            if target.confirmed:
                signature.apply_async(kwargs={"task_id": notice.task_id, "name": notice.name}, **options)
            else:
                signature.apply_async((notice.body(),), argsrepr=repr((notice.notice_id,)), **options)

    def _signature(self, target: Notify) -> Any:
        try:
            return maybe_signature(dict(target.celery or {}), app=self._app)
        except Exception as error:
            raise UsageError(f"{target.named} is no Celery signature: {error!r}") from error
