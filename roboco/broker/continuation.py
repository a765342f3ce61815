"""Continuation: the callbacks, chain and chord of a Celery task whose result exists later than its end.

This does for a stored request what the worker's tracer (`celery.app.trace.build_tracer`) does at the end of a Celery
task: it sends callbacks and chain before it stores a result, and errbacks after it has stored an error.
"""

import logging
from collections.abc import Sequence
from typing import Any, Final

from celery import Celery, group, states
from celery.app.task import Context
from celery.canvas import maybe_signature
from kombu.utils import json

from roboco.broker.broker_error import translating_errors
from roboco.errors import TransientError, UsageError

_log = logging.getLogger(__name__)

STORED_FIELDS: Final = (
    *("id", "root_id", "parent_id", "group", "group_index", "chord", "chain", "callbacks", "errbacks"),
    *("reply_to", "correlation_id", "task", "retries", "origin", "replaced_task_nesting"),
)
MAX_REQUEST_CHARS = 200_000
"""Characters of JSON of a stored request at most."""


def serialize_request(request: Any, ignore_result: bool) -> str:
    """Return the part of a request that its continuation needs, as JSON; UsageError if it is not JSON or too large."""
    delivery = {name: (request.delivery_info or {}).get(name) for name in ("priority", "routing_key")}
    record = {name: getattr(request, name, None) for name in STORED_FIELDS}
    try:
        text = str(json.dumps(record | {"delivery_info": delivery, "ignore_result": ignore_result}))
    except (TypeError, ValueError) as error:
        raise UsageError(f"the part of the canvas after the team's task is no JSON: {error}") from error
    if len(text) > MAX_REQUEST_CHARS:
        raise UsageError(
            f"the part of the canvas after the team's task has {len(text)} characters of JSON, at most "
            f"{MAX_REQUEST_CHARS} are possible; pass large values by name"
        )
    return text


class Continuation:
    """The continuation of a stored request, on the application and result backend of its Celery task."""

    def __init__(self, app: Celery, text: str) -> None:
        self.app: Any = app
        request: Any = Context(json.loads(text), args=(), kwargs={}, called_directly=False)
        self.request = request
        self.task: Any = self.app.tasks[self.request.task]

    def send_next(self, result: Any) -> None:
        """Send the callbacks and the next Celery task of the chain."""
        priority = self.request.delivery_info.get("priority") if self.app.conf.task_inherit_parent_priority else None
        options = {
            "parent_id": self.request.id,
            "root_id": self.request.root_id or self.request.id,
            "priority": priority,
        }
        for signature in self._callbacks(self.request.callbacks or ()):
            signature.apply_async((result,), **options)
        if chain := list(self.request.chain or ()):
            following = _signature(chain.pop(), self.app)
            following.apply_async((result,), chain=chain, **options)

    def _callbacks(self, callbacks: Sequence[Any]) -> list[Any]:
        """Return each group, and one group of all others, as the tracer sends them."""
        signatures = [_signature(one, self.app) for one in callbacks]
        if len(signatures) < 2:
            return signatures
        groups = [one for one in signatures if isinstance(one, group)]
        others = [one for one in signatures if not isinstance(one, group)]
        return [*groups, group(others, app=self.app)] if others else groups

    def store_result(self, result: Any) -> None:
        """Store the result, and its part of a chord. This is idempotent."""
        self.task.backend.mark_as_done(self.request.id, result, self.request, not self.request.ignore_result)

    def store_error(self, error: Exception) -> None:
        """Store the error for the Celery task, its part of a chord and the rest of its chain. Call errbacks."""
        self.task.backend.mark_as_failure(
            self.request.id, error, request=self.request, store_result=self._stores_errors
        )

    def send_event(self, event: str, **fields: Any) -> None:
        """Send the event that the Celery task has ended: its worker has returned without one.

        The event names the worker that runs this. Only displays such as Flower depend on it, and it may get lost.
        """
        current = self.app.current_worker_task
        if current is None:
            return
        try:
            with (
                translating_errors(event),
                self.app.events.default_dispatcher(hostname=current.request.hostname) as dispatcher,
            ):
                dispatcher.send(event, uuid=self.request.id, name=self.request.task, **fields)
        except TransientError as error:
            _log.warning("the event of the end of Celery task %s is not sent: %s", self.request.id, error)

    @property
    def was_revoked(self) -> bool:
        """True if the result backend holds that the Celery task was revoked, which the workers store."""
        try:
            return bool(self.task.backend.get_state(self.request.id) == states.REVOKED)
        except NotImplementedError:
            return False  # there is no result backend

    def store_revoked(self, reason: str) -> None:
        """Store that the Celery task was revoked, and its part of a chord. This is idempotent."""
        self.task.backend.mark_as_revoked(self.request.id, reason, self.request, self._stores_errors)

    @property
    def _stores_errors(self) -> bool:
        return not self.request.ignore_result or bool(self.task.store_errors_even_if_ignored)


def _signature(record: Any, app: Any) -> Any:
    return maybe_signature(record, app=app)
