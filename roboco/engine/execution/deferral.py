"""deferral: a turn that cannot run now is released until a later time.

    claimed ─► deferred for some seconds ─► the sweeper dispatches it ─► claimed by any agents worker
               (no thread waits)

If the worker dies before the turn is deferred, its lease expires. If the worker dies after that, the sweeper finds the
turn no later than the lease would have expired.
"""

from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import StatusChanged
from roboco.domain.team.model_profile import ModelProfile
from roboco.engine.coordinator import outage
from roboco.engine.execution.claimed_turn import Making, TurnEnd
from roboco.errors import ModelError

ALONE, LONGEST_ALONE = 5.0, 15.0
"""The first and the longest delay, in seconds, of a turn that waits for quarantine. The delay doubles."""


def wait_for_rate(making: Making, profile: ModelProfile, seconds: float) -> TurnEnd:
    """Defer the turn until the rate limits that Roboco keeps allow its request. No thread waits meanwhile."""
    return defer(making, seconds, _rate_reason(making, profile, seconds), TurnEnd.RATE_LIMITED)


def wait_for_server_rate(making: Making, profile: ModelProfile, error: ModelError) -> TurnEnd:
    """Defer the turn, and hold back all requests to the model server, which refused one for its rate limit."""
    seconds = outage.delay(error, making.claim.task.refusals)
    making.engine.rates.pause(profile, seconds)
    return defer(making, seconds, _rate_reason(making, profile, seconds), TurnEnd.RATE_LIMITED, refused=True)


def _rate_reason(making: Making, profile: ModelProfile, seconds: float) -> str:
    return f"{making.claim.task.agent} waits {seconds:.0f} s for the rate limit of model {profile.model}"


def ask_again(making: Making, error: ModelError) -> TurnEnd:
    """Defer the turn, because its model cannot be reached or its server fails. Other turns are not held back."""
    claim = making.claim
    seconds = outage.delay(error, claim.task.refusals)
    return defer(making, seconds, outage.reason(claim.task.agent, error, seconds), TurnEnd.OUTAGE, True)


def wait_alone(making: Making) -> TurnEnd:
    """Defer the turn until quarantine is free: another turn in it may crash this worker."""
    agent, lost = making.claim.task.agent, making.claim.order.attempt - 1
    pause = min(LONGEST_ALONE, ALONE * 2.0 ** min(making.claim.task.rings, 10))
    reason = (
        f"{agent} waits: its turn lost {lost} attempts, and a worker makes such turns one at a time, because one of "
        "them may end the worker"
    )
    return defer(making, pause, reason, TurnEnd.DEFERRED)


def defer(
    making: Making, seconds: float, reason: str, end: TurnEnd, refused: bool = False, declined_by: str = ""
) -> TurnEnd:
    """Defer the turn for these seconds, publish the reason and return `end`. Return LOST if the lease has expired.

    `refused` counts a refusal of the model server. `declined_by` names this worker if it cannot run the turn.
    """
    engine, claim = making.engine, making.claim
    task_id = claim.order.task_id
    event = StatusChanged(task_id=task_id, timestamp=engine.now(), status=TaskStatus.RUNNING, reason=reason)
    if not engine.turns.defer(claim, seconds, event, refused, declined_by):
        return TurnEnd.LOST
    engine.schedule.schedule_no_later_than(task_id, seconds)
    now = engine.board.load(task_id, 1)
    if now is not None and (now.cut_age is not None or outage.is_over(engine, making.team, now)):
        engine.dispatcher.advance(task_id)  # it was cancelled before, or was refused for too long
    return end
