"""The request of a worker: what becomes of a message whose Celery task failed."""

import pickle
from typing import Any

import pytest
from billiard.einfo import ExceptionInfo
from billiard.exceptions import SoftTimeLimitExceeded, TimeLimitExceeded
from billiard.pool import MaybeEncodingError
from celery import Celery
from kombu.message import Message

from roboco.broker.names import ADVANCE_TASK, COMMAND_TASKS
from roboco.broker.redacted_request import RedactedRequest
from roboco.errors import UsageError

COMMAND = min(COMMAND_TASKS)
LIMITS = (
    SoftTimeLimitExceeded(),
    TimeLimitExceeded(3.0),
    MaybeEncodingError(SoftTimeLimitExceeded(), "the result"),
)


def end_of_message(name: str, error: Exception, return_ok: bool) -> str:
    """Return what becomes of a message of this Celery task that failed with this error."""
    app = Celery(broker="memory://", set_as_current=False)

    def run() -> None:
        raise error

    app.task(name=name, shared=False, acks_late=True, reject_on_worker_lost=True)(run)
    ends = list[str]()

    def reject(log: Any, errors: Any, requeue: bool) -> None:
        ends.append("requeued" if requeue else "dropped")

    request = RedactedRequest(
        Message(
            body="[[], {}, {}]",
            headers={"task": name, "id": "m-1"},
            content_type="application/json",
            content_encoding="utf-8",
        ),
        app=app,
        on_ack=lambda *parts: ends.append("acknowledged"),
        on_reject=reject,
    )
    try:
        run()
    except Exception:
        sent = pickle.loads(pickle.dumps(ExceptionInfo()))  # as from the child process
        request.on_failure(sent, return_ok=return_ok)
    [end] = ends
    return end


@pytest.mark.parametrize("return_ok", [True, False], ids=["child failed", "pool failed"])
def test_a_message_returns_to_its_queue_at_a_limit_if_it_is_from_outside(return_ok: bool) -> None:
    """The child process has returned the error, or the pool reports it: of a process that was killed, say."""
    for error in LIMITS:
        assert end_of_message(COMMAND, error, return_ok) == "requeued"
        assert end_of_message(ADVANCE_TASK, error, return_ok) == "acknowledged", "the sweeper repeats it"
    for other in (UsageError("no such team"), MemoryError()):
        for name in (COMMAND, ADVANCE_TASK):
            assert end_of_message(name, other, return_ok) == "acknowledged", "it ends no worker"
