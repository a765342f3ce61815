"""celery_result: the engine's results as results and exceptions of Celery tasks, as Flower shows them."""

from celery.exceptions import Ignore, Reject, Retry

from roboco.domain.status import TaskStatus
from roboco.engine.accept.guard import Acknowledge, Disposition, Requeue
from roboco.engine.run.attempt_outcome import CallOutcome, SwitchedOff, TurnFailed, TurnOutcome, TurnResult
from roboco.errors import Conflict, TaskFailed, TransientError


def turn_result(task_id: str, end: TurnResult) -> str:
    """Return the result of the Celery task of a turn, or raise if this attempt did not make the turn, or failed.

    Retry: the sweeper dispatches the turn again under the same id. Ignore: no event is sent, because the row of this id
    in Flower belongs to the worker that has claimed the turn. TaskFailed, with the reason: the turn's step ended the
    task as failed. TransientError: the model's reply was cut off, and another attempt follows. Conflict: another
    attempt has replaced this one.
    """
    match end:
        case TurnFailed(reason):
            raise TaskFailed(task_id, TaskStatus.FAILED, reason)
        case SwitchedOff(cause):
            raise Retry(cause, TransientError(cause))
        case (
            TurnOutcome.RATE_LIMITED
            | TurnOutcome.BUDGET
            | TurnOutcome.OUTAGE
            | TurnOutcome.DEFERRED
            | TurnOutcome.HANDED_OVER
        ):
            raise Retry(str(end), TransientError(str(end)))
        case TurnOutcome.CLAIMED_ELSEWHERE:
            raise Ignore
        case TurnOutcome.CUT_OFF:
            raise TransientError(str(end))
        case TurnOutcome.REPLACED:
            raise Conflict(str(end))
        case TurnOutcome.COMMITTED | TurnOutcome.OBSOLETE:
            return str(end)


def call_result(end: CallOutcome | SwitchedOff) -> None:
    """Raise Retry if another worker is to run the call, and Ignore, which sends no event, if another has claimed it."""
    match end:
        case SwitchedOff(cause):
            raise Retry(cause, TransientError(cause))
        case CallOutcome.HANDED_OVER:
            raise Retry(str(end), TransientError(str(end)))
        case CallOutcome.CLAIMED_ELSEWHERE:
            raise Ignore
        case CallOutcome.DONE:
            return


def message_result(disposition: Disposition) -> None:
    """Raise Reject if the message returns to its queue. Celery acknowledges it if this returns."""
    match disposition:
        case Requeue(error):
            raise Reject(error, requeue=True) from error
        case Acknowledge():
            return
