"""deferral: a turn that cannot run now, or not here, is released: until a later time, or for another worker at once.

    claimed ─► deferred for some seconds ─► the sweeper dispatches it ─► claimed by any agents worker
               (no thread waits)

If the worker dies before the turn is deferred, its lease expires. If the worker dies after that, the sweeper finds the
turn no later than the lease would have expired.

A server that does not answer during a turn:

    no text published ─► deferred, as for an outage of the model          (no attempt is counted)
    text published ────► restarted: event_turn_restart voids the text     (no attempt is counted)
    Redis is silent ───► this worker waits for it, and then does one of both

A process that ends while it runs a turn or call:

    turn:  no text emitted ─► released: the same attempt starts again, and nothing was lost
           text emitted ────► restarted: event_turn_restart voids the text, and the next attempt starts
           reply complete ──► committed by its own thread, unless the workspace takes no writes: restarted
    call:  released: the same attempt starts again. Only a call that may run twice is handed over.

None of them counts as a failed attempt.
"""

from roboco.domain.canonical_json import well_formed
from roboco.domain.history.part import ToolCall
from roboco.domain.rate_report import RATE_WAIT
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import StatusChanged
from roboco.domain.switch import Switch
from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.team.team import Team
from roboco.domain.url import strip_credentials
from roboco.domain.usage import Usage
from roboco.engine import day_budgets
from roboco.engine.coordinate import outage
from roboco.engine.coordinate.next_step import dispatch_call
from roboco.engine.coordinate.pending_turn import restart_turn
from roboco.engine.coordinate.switched_off import check_delay
from roboco.engine.engine import Engine
from roboco.engine.record import recover
from roboco.engine.retry import retry
from roboco.engine.run.attempt_outcome import SwitchedOff, TurnOutcome, TurnResult
from roboco.engine.run.claimed_turn import ClaimedTurn
from roboco.errors import ModelError, TransientError
from roboco.ports.assignment import ToolAssignment
from roboco.ports.leases import NO_TOKENS
from roboco.ports.snapshot import TokenUsage

_NOTHING = Usage()
MIN_AWAITED_DELAY = 2.0
"""Seconds of a delay after which the turn awaits the next answer of its model."""
QUARANTINE_DELAY, MAX_QUARANTINE_DELAY = 5.0, 15.0
"""The first and the longest delay, in seconds, of a turn that waits for quarantine. The delay doubles."""


def defer_for_rate_limit(turn: ClaimedTurn, profile: ModelProfile, seconds: float) -> TurnOutcome:
    """Defer the turn until the rate limits that Roboco keeps allow its request. No thread waits meanwhile."""
    return defer(turn, seconds, _rate_reason(turn, profile, seconds), TurnOutcome.RATE_LIMITED)


def defer_for_provider_limit(
    turn: ClaimedTurn, profile: ModelProfile, error: ModelError, spent: Usage = _NOTHING
) -> TurnOutcome:
    """Defer the turn, and hold back all requests to the model server, which refused one for its rate limit."""
    seconds = outage.retry_delay(error, turn.task.refusals.count)
    turn.engine.services.rate_limiter.pause(profile, turn.ticket.tenant, seconds)
    return defer(turn, seconds, _rate_reason(turn, profile, seconds), TurnOutcome.RATE_LIMITED, _used(error, spent))


def _rate_reason(turn: ClaimedTurn, profile: ModelProfile, seconds: float) -> str:
    return f"{turn.agent.name} waits {seconds:.0f} s{RATE_WAIT}{profile.model}"


def defer_for_outage(turn: ClaimedTurn, error: ModelError, spent: Usage = _NOTHING) -> TurnOutcome:
    """Defer the turn, because its model cannot be reached or its server fails. Other turns are not held back."""
    seconds = outage.retry_delay(error, turn.task.refusals.count)
    if (left := outage.seconds_to_fallback(turn.team, turn.task)) is not None:
        seconds = min(seconds, max(1.0, left))
    reason = outage.wait_reason(turn.agent.name, error, seconds)
    outcome = defer(turn, seconds, reason, TurnOutcome.OUTAGE, _used(error, spent))
    if outcome is TurnOutcome.OUTAGE and seconds > MIN_AWAITED_DELAY:  # an answer to another task ends the delay
        turn.engine.services.rate_limiter.add_waiting_task(turn.profile, turn.task_id)
    return outcome


def _used(error: ModelError, spent: Usage) -> TokenUsage:
    """Return the tokens for which providers may charge: of the call that failed, and of others of this attempt."""
    return TokenUsage(error.tokens_in + spent.tokens_in, error.tokens_out + spent.tokens_out)


def defer_for_quarantine(turn: ClaimedTurn) -> TurnOutcome:
    """Defer the turn until quarantine is free: another turn in it may crash this worker."""
    delay = min(MAX_QUARANTINE_DELAY, QUARANTINE_DELAY * 2.0 ** min(turn.task.position.redeliveries, 10))
    reason = (
        f"{turn.agent.name} waits: its turn lost {turn.task.attempt.counted - 1} attempts, and a worker makes such "
        "turns one at a time, because one of them may end the worker"
    )
    return defer(turn, delay, reason, TurnOutcome.DEFERRED)


def defer_for_switch(turn: ClaimedTurn, switch: Switch) -> TurnOutcome | SwitchedOff:
    """Defer the turn until an operator switches it on. The sweeper checks that, and sends no message until then."""
    seconds = check_delay(turn.engine, turn.task)
    outcome = defer(turn, seconds, switch.cause, TurnOutcome.DEFERRED)
    return SwitchedOff(switch.cause) if outcome is TurnOutcome.DEFERRED else outcome


def defer(
    turn: ClaimedTurn,
    seconds: float,
    reason: str,
    outcome: TurnOutcome,
    refused: TokenUsage | None = None,
) -> TurnOutcome:
    """Defer the turn for these seconds, publish the reason and return `outcome`. Return REPLACED if the lease is lost.

    `refused` counts a refusal of the model server, with the tokens that it has cost.
    """
    engine, task_id = turn.engine, turn.task_id
    event = StatusChanged(task_id=task_id, timestamp=engine.now(), status=TaskStatus.RUNNING, reason=reason)
    if not engine.tasks.leases.defer_turn(turn.claim, seconds, event, refused is not None, refused or NO_TOKENS):
        return TurnOutcome.REPLACED
    day_budgets.release(engine, task_id, turn.task)
    engine.tasks.schedule.schedule_no_later_than(task_id, seconds)
    now = engine.tasks.task_store.load(task_id, 1)
    if now and (now.attempt.cancel_requested_for is not None or outage.is_timeout_exceeded(turn.team, now)):
        engine.services.dispatcher.advance(task_id)  # it was cancelled before, or was refused for too long
    return outcome


MAX_ERROR_CHARS = 2000
"""Characters that the history keeps of an exception."""


def try_later(turn: ClaimedTurn, error: TransientError) -> TurnResult:
    """Try the turn again later, because a server did not answer. Text that this attempt has published becomes void.

    While Redis does not answer either, wait for it, so that the turn goes on as soon as it does. Raise TransientError
    after `store_timeout`: then the turn is tried again after its lease.
    """
    engine = turn.engine
    work = f"the restart of step {turn.claim.assignment.seq} of task {turn.task_id}"
    return retry(lambda: _try_later(turn, error), lambda: True, work, engine.clock, engine.policy.store_timeout)


def _try_later(turn: ClaimedTurn, error: TransientError) -> TurnResult:
    engine, task_id = turn.engine, turn.task_id
    now = engine.tasks.task_store.load(task_id, 1)
    if now is None or not now.logs.attempt_chunks:
        return defer_for_outage(turn, ModelError("server", str(error), True))
    if recover.catch_up(engine, task_id, now):  # the step was stored before
        engine.services.dispatcher.advance(task_id)
        return TurnOutcome.REPLACED
    restart_turn(engine, task_id, turn.task, error_text(str(error)), turn.claim.token, handed_over=True)
    return TurnOutcome.CUT_OFF


def error_text(text: str) -> str:
    """Return the text of an exception without credentials and at a bounded length, for the history."""
    return strip_credentials(well_formed(text))[:MAX_ERROR_CHARS]


def hand_over_turn(turn: ClaimedTurn, reason: str) -> None:
    """Let another agents worker run the turn. Do nothing if this claim does not hold it any more."""
    engine, claim, task_id = turn.engine, turn.claim, turn.task_id
    now = engine.tasks.task_store.load(task_id, 1)
    if now is None or now.position.epoch != claim.assignment.epoch or not now.attempt.claimed:
        return
    if recover.catch_up(engine, task_id, now):  # the step was stored before
        engine.services.dispatcher.advance(task_id)
    elif engine.tasks.leases.release_turn(claim):
        engine.tasks.schedule.set(task_id, engine.policy.redelivery_delay)
        engine.services.dispatcher.turn(claim.assignment, turn.agent.name)
    else:
        restart_turn(engine, task_id, turn.task, reason, claim.token, handed_over=True)


def hand_over_call(engine: Engine, team: Team, order: ToolAssignment, token: str, call: ToolCall) -> None:
    """Let another tools worker run the call. Do nothing if it has an outcome, or its lease is lost."""
    if engine.tasks.leases.release_call(order, token):
        engine.tasks.schedule.schedule_no_later_than(order.task_id, engine.policy.redelivery_delay)
        dispatch_call(engine.services, team, order, call)
