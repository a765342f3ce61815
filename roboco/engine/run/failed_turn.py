"""failed_turn: what follows if a server does not answer during a turn.

no text published ─► deferred, as for an outage of the model          (no attempt is counted)
text published ────► restarted: event_turn_restart voids the text     (no attempt is counted)
Redis is silent ───► this worker waits for it, and then does one of both
"""

from roboco.domain.canonical_json import well_formed
from roboco.domain.url import strip_credentials
from roboco.engine.coordinate.pending_turn import restart_turn
from roboco.engine.record import recover
from roboco.engine.retry import retry
from roboco.engine.run.attempt_outcome import TurnOutcome
from roboco.engine.run.claimed_turn import ClaimedTurn
from roboco.engine.run.deferral import defer_for_outage
from roboco.engine.run.turn_result import TurnResult
from roboco.errors import ModelError, TransientError

MAX_ERROR_CHARS = 2000
"""Characters that the history keeps of an exception."""


def try_later(turn: ClaimedTurn, error: TransientError) -> TurnResult:
    """Try the turn again later, because a server did not answer. Text that this attempt has published becomes void.

    While Redis does not answer either, wait for it, so that the turn goes on as soon as it does. Raise TransientError
    after `store_timeout`: then the turn is tried again after its lease.
    """
    engine = turn.engine
    work = f"the restart of step {turn.claim.assignment.seq} of task {turn.claim.assignment.task_id}"
    return retry(lambda: _try_later(turn, error), lambda: True, work, engine.clock, engine.policy.store_timeout)


def _try_later(turn: ClaimedTurn, error: TransientError) -> TurnResult:
    engine, claim = turn.engine, turn.claim
    now = engine.tasks.task_store.load(claim.assignment.task_id, 1)
    if now is None or not now.logs.attempt_chunks:
        failure = ModelError("server", str(error), True)
        return defer_for_outage(turn, failure)
    if recover.catch_up(engine, claim.assignment.task_id, now):  # the step was stored before
        engine.services.dispatcher.advance(claim.assignment.task_id)
        return TurnOutcome.REPLACED
    reason = error_text(str(error))
    restart_turn(engine, claim.assignment.task_id, claim.snapshot, reason, claim.token, handed_over=True)
    return TurnOutcome.CUT_OFF


def error_text(text: str) -> str:
    """Return the text of an exception without credentials and at a bounded length, for the history."""
    return strip_credentials(well_formed(text))[:MAX_ERROR_CHARS]
