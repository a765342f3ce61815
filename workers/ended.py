"""How turns and calls that have ended show in Celery's events, and thus in Flower."""

from celery.exceptions import Ignore, Retry

from roboco.domain.status import TaskStatus
from roboco.engine.execution.claimed_turn import TurnEnd
from roboco.engine.execution.tool_call import CallEnd
from roboco.engine.execution.turn_failed import TurnFailed, TurnResult
from roboco.errors import Conflict, TeamFailed, TransientError


def ended(task_id: str, end: TurnResult) -> str:
    """Return the result of the Celery task, or raise if the turn failed, is not made yet, or not by this attempt.

    Retry: the sweeper announces it again under the same id. Ignore, which shows nothing: the row of this id belongs
    to the worker that is at it. A turn that ends its task as failed is a failure of the Celery task, with the reason.
    """
    match end:
        case TurnFailed(reason):
            raise TeamFailed(task_id, TaskStatus.FAILED, reason)
        case TurnEnd.RATE_LIMITED | TurnEnd.OUTAGE | TurnEnd.DEFERRED:
            raise Retry(str(end), TransientError(str(end)))
        case TurnEnd.TAKEN:
            raise Ignore
        case TurnEnd.BROKE_OFF:
            raise TransientError(str(end))
        case TurnEnd.LOST:
            raise Conflict(str(end))
        case TurnEnd.COMMITTED | TurnEnd.REFUSED:
            return str(end)


def call_ended(end: CallEnd) -> None:
    """Raise Retry if another worker runs the call, and Ignore, which shows nothing, if another one has claimed it."""
    match end:
        case CallEnd.RELEASED:
            raise Retry(str(end), TransientError(str(end)))
        case CallEnd.TAKEN:
            raise Ignore
        case CallEnd.DONE:
            return
