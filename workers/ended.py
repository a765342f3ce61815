"""How turns and calls that have ended show in Celery's events, and thus in Flower."""

from celery.exceptions import Ignore, Retry

from roboco.engine.making import TurnEnd
from roboco.engine.tool import CallEnd
from roboco.errors import Conflict, TransientError


def ended(end: TurnEnd) -> str:
    """What the Celery task returns. It raises instead where the turn is not made, or not by this attempt.

    Retry: the sweeper announces it again under the same id. Ignore, which shows nothing: the row of this id belongs
    to the worker that is at it.
    """
    match end:
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
