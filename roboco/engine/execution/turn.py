"""turn: one model call by one agent, which becomes one step.

    claim ─► summary ─► prompt ─► rates ─► model ─► emit, emit, ... ─► append ─► commit ─► wake-up message
    (once    (older     (pure,      │               (fenced; renews     (one       (fenced)
    per attempt) steps)  limits)    ▼                the lease)          wins)
                               deferred             ▲
                                                    └── a cancellation closes it; the text until then is the step

Leases and fencing: the worker that claims a turn has a lease on it, which emits and a heartbeat renew. If the worker
dies, the lease expires, and the sweeper dispatches another attempt or, if the step was stored, the coordinator applies
it. An expired lease does not stop a worker that was only suspended. So each claim has a new token, and Redis refuses
every emit and commit of an older one. The task's epoch fences the rest: each decision increases it, and an order with
an older epoch is refused. The append to the history is conditional as well: of two steps with one number, the first
wins.
"""

import logging
from typing import assert_never

from roboco.domain.canonical_json import well_formed
from roboco.domain.decision.decide import at_limit
from roboco.domain.history.part import TextPart
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import step_id_at
from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.url import without_credentials
from roboco.engine.coordinator import outage
from roboco.engine.coordinator.next_step import NextStep
from roboco.engine.coordinator.pending_turn import restart_turn
from roboco.engine.engine import Engine
from roboco.engine.execution.cancellation import Ending
from roboco.engine.execution.claimed_turn import Making, TurnEnd
from roboco.engine.execution.deferral import ask_again, defer, wait_alone, wait_for_rate, wait_for_server_rate
from roboco.engine.execution.not_runnable import put_off_turn
from roboco.engine.execution.reply import Said, failed, said
from roboco.engine.execution.request import Composed, compose, with_images
from roboco.engine.execution.summarize import (
    Deferred,
    Failed,
    Ready,
    Refused,
    SummaryResult,
    Throttled,
    ready_of,
    summary_for,
)
from roboco.engine.execution.token_stream import TokenStream
from roboco.engine.execution.turn_failed import TurnResult, failed_before, failed_by
from roboco.engine.execution.turn_metadata import completed, interrupted, usage_of
from roboco.engine.record import rate_tickets as tickets
from roboco.engine.record import recover
from roboco.engine.record.tool_listings import listings_for
from roboco.engine.retry import retry
from roboco.engine.usage import charged, failed_reply_usage, record_turn_metrics
from roboco.errors import Conflict, CorruptHistory, ModelError, NotRunnable, TransientError, UsageError
from roboco.ports import (
    Commit,
    Doing,
    Listings,
    ModelStream,
    Reply,
    TurnOrder,
    Unlisted,
    Work,
)

_log = logging.getLogger(__name__)
MOST_TOLD = 2000
"""Characters that the history keeps of an exception."""


def turn(engine: Engine, order: TurnOrder) -> TurnResult:
    """Run the turn, unless it is done, claimed by another worker, or cancelled."""
    work = Work("turn", order.task_id, order.seq, order.attempt)
    with engine.telemetry.work(work) as doing:
        return _claim_and_make(engine, order, doing)


def _claim_and_make(engine: Engine, order: TurnOrder, doing: Doing) -> TurnResult:
    team = engine.teams.get(order.task_id)
    engine.schedule.schedule_no_later_than(order.task_id, engine.policy.lease)
    ending = Ending(engine)
    with engine.signals.listen(order.task_id, order.epoch, ending.ask):  # the claim reports earlier signals
        claim = engine.turns.claim(order, engine.token(), team.tail)
        if claim is not None:
            making = Making(engine, team, claim, ending, doing, engine.clock.now())
            doing.tell(agent=claim.task.agent, model=making.model)
            with engine.quarantine.entered(order.attempt, engine.policy.attempts) as entered:
                if not entered:
                    return wait_alone(making)
                with engine.heartbeat.renewing(lambda: ending.renew(claim), ending.drop):
                    return _make_or_explain(making)
    doing.void()
    now = engine.board.load(order.task_id, 1)
    at_it = now is not None and now.claimed and (now.seq, now.epoch, now.attempt) == _place(order)
    if at_it:
        return TurnEnd.TAKEN
    return (None if now is None else failed_before(team, now, order)) or TurnEnd.REFUSED


def _place(order: TurnOrder) -> tuple[int, int, int]:
    return order.seq, order.epoch, order.attempt


def _make_or_explain(making: Making) -> TurnResult:
    """Run the turn. Commit a permanent failure, with its cause, as the step. Repeat only what may succeed later."""
    claim = making.claim
    try:
        return _make(making)
    except ModelError as error:
        if error.retryable:
            return _put_off(making, error)
        return _commit(making, failed(claim, error.code, str(error)), {})
    except TransientError as error:
        return _put_off(making, error)
    except (Conflict, CorruptHistory):
        raise
    except Exception as error:
        _log.exception("step %d of task %s fails", claim.order.seq, claim.order.task_id)
        told = _told(f"{type(error).__name__}: {error}")
        return _commit(making, failed(claim, "internal", told), {})


def _told(text: str) -> str:
    """Return the text of an exception without credentials and at a bounded length, for the history."""
    return without_credentials(well_formed(text))[:MOST_TOLD]


def _put_off(making: Making, error: TransientError) -> TurnResult:
    """Try the turn again later, because a server did not answer. Text that this attempt has published becomes void.

    Raise TransientError if Redis does not answer either. Then the turn is tried again after its lease.
    """
    engine, claim = making.engine, making.claim
    now = engine.board.load(claim.order.task_id, 1)
    if now is None or not now.emitted:
        failure = ModelError("server", str(error), True)
        return ask_again(making, failure)
    if recover.catch_up(engine, claim.order.task_id, now):  # the step was stored before
        engine.dispatcher.advance(claim.order.task_id)
        return TurnEnd.LOST
    if claim.order.attempt >= engine.policy.attempts:
        return _commit(making, failed(claim, "server", _told(str(error))), {})
    restart_turn(engine, claim.order.task_id, claim.task, _told(str(error)), claim.token)
    return TurnEnd.BROKE_OFF


def _make(making: Making) -> TurnResult:
    engine, claim = making.engine, making.claim
    try:
        listings = listings_for(engine, claim.order.task_id, making.team, making.team.agent(claim.task.agent))
    except UsageError as error:
        return _commit(making, failed(claim, "team", str(error)), {})
    if isinstance(listings, Unlisted):
        if not making.ending.asked:
            return defer(making, listings.seconds, listings.reason, TurnEnd.DEFERRED)
        listings = {}
    return _make_with(making, listings)


def _make_with(making: Making, listings: Listings) -> TurnResult:
    """Run the turn with the tools of these listings."""
    engine, claim = making.engine, making.claim
    result = summary_for(engine, making.team, claim, making.ending)
    if not making.ending.asked and (deferred := _wait_for_summary(making, result)) is not None:
        return deferred
    try:
        composed = compose(engine, making.team, claim, result, listings)
    except NotRunnable as error:
        return put_off_turn(making, error)
    except UsageError as error:
        return _commit(making, failed(claim, "team", str(error)), usage_of(ready_of(result)))
    if composed.refused:
        step = at_limit(composed.refused, claim.task.agent)  # `decide` chooses what follows
        return _commit(making, Said(step.parts), step.metadata | usage_of(composed.summary), step.agent_name)
    wait = engine.rates.reserve(composed.request.profile, making.ticket, composed.tokens)
    if wait > 0:
        if not making.ending.asked:
            return wait_for_rate(making, composed.request.profile, wait)
        tickets.release(engine, making.team, claim.order.task_id, claim.task)
    request = with_images(engine, claim.order.task_id, composed.request)
    speech = TokenStream(engine, claim, making.ending, composed.memory.tokens)
    stream = engine.model.stream(request, speech.say)
    making.ending.of(stream)
    return _speak(making, composed, speech, stream, wait < 0)


def _wait_for_summary(making: Making, result: SummaryResult) -> TurnEnd | None:
    """Defer the turn if its next summary waits for a rate limit. Return None if the turn can run now."""
    match result:
        case Deferred(_, profile, seconds):
            return wait_for_rate(making, profile, seconds)
        case Throttled(_, profile, error):
            return wait_for_server_rate(making, profile, error)
        case Ready() | Refused() | Failed():
            return None
        case _ as unknown:
            assert_never(unknown)


def _speak(making: Making, composed: Composed, speech: TokenStream, stream: ModelStream, awaited: bool) -> TurnResult:
    """Publish the reply and commit it as a step. If the reply is `awaited`, resume paused tasks after it."""
    engine, claim, ending = making.engine, making.claim, making.ending
    reply: Reply | None = None
    failed_with: ModelError | None = None
    try:
        for piece in stream:
            reply = piece if isinstance(piece, Reply) else None
    except ModelError as error:
        failed_with = error
    finally:
        stream.close()
    ours = speech.finish(whole=reply is not None or failed_with is not None)
    texts = speech.texts
    if not ours:
        return TurnEnd.LOST
    if failed_with is not None and not ending.asked:
        return _break_off(making, composed, texts, failed_with)
    if reply is not None and not speech.cut:  # text that was not published before the requested end is dropped
        whole = said(engine, making.team, claim, "".join(texts), reply, composed.listings)
        end = _commit(making, whole, completed(composed, reply) | {"chunks": len(texts)})
        _answered(making, composed.request.profile, reply, awaited)
        return end
    if not ending.asked:
        return TurnEnd.LOST
    receipt = ending.receipt(claim, stream, len(texts))
    return _commit(making, Said((TextPart(text="".join(texts)),)), interrupted(composed, texts, receipt))


def _answered(making: Making, profile: ModelProfile, reply: Reply, awaited: bool) -> None:
    """Record the tokens of the reply, and that the model has answered. A failure is logged: the step is committed.

    If the tokens are not recorded, the estimate counts. Tasks that await the model are resumed after its next reply.
    """
    engine = making.engine
    try:
        if profile.tokens_per_minute is not None:
            used, ago = reply.tokens_in + reply.tokens_out, reply.duration_ms / 1000
            engine.rates.settle(profile, making.ticket, used, ago)
        if awaited:
            outage.answered(engine, profile)
    except TransientError as error:
        _log.warning("a reply of model %s is not recorded for its rate limit: %s", profile.model, error)


def _break_off(making: Making, composed: Composed, texts: list[str], error: ModelError) -> TurnResult:
    """Start another attempt after a model call that failed. If none can succeed, commit the error as the step.

    If the call failed before the first text, the turn is deferred. If the model server refused the call for its rate
    limit, the requests of all workers to that server are held back.
    """
    engine, claim = making.engine, making.claim
    if error.code == "rate_limit" and not texts:
        return wait_for_server_rate(making, composed.request.profile, error)
    if error.retryable and not texts:
        return ask_again(making, error)
    if texts and error.retryable and claim.order.attempt < engine.policy.attempts:
        restart_turn(engine, claim.order.task_id, claim.task, str(error), claim.token)
        return TurnEnd.BROKE_OFF
    parts = failed(claim, error.code, error.message, "".join(texts))
    used = failed_reply_usage(composed.request.profile, composed.memory.tokens, texts)
    metadata = usage_of(composed.summary, used)
    return _commit(making, parts, metadata | {"context": composed.memory.receipt, "chunks": len(texts)})


def _commit(making: Making, said: Said, metadata: dict[str, object], agent_name: str | None = None) -> TurnResult:
    engine, claim = making.engine, making.claim
    order, task = claim.order, claim.task
    routing: dict[str, object] = {"attempt": order.attempt, "routing": task.routing} if agent_name is None else {}
    step = TaskStep(
        step_id=step_id_at(order.task_id, order.seq),
        seq=order.seq,
        agent_name=agent_name or task.agent,
        parts=said.parts,
        created_at=engine.now(),
        metadata=routing | metadata | said.metadata() | charged(making.team, task),
    ).sealed(task.state.last_digest)
    stored = retry(
        engine,
        lambda: engine.histories.append(order.task_id, step),
        lambda: bool(engine.turns.renew(claim)),
        f"step {step.seq} of task {order.task_id}",
    )
    record_turn_metrics(engine, making.doing, making.model, step, engine.clock.now() - making.began)
    if stored.digest != step.digest:
        recover.catch_up(engine, order.task_id, task)
        engine.dispatcher.advance(order.task_id)
        return TurnEnd.LOST
    commit = Commit(step, task.state.after(step), recover.events_of(engine, order.task_id, step, task.tail[-1]))
    if not NextStep(engine, order.task_id, making.team, task).commit_and_continue(commit):
        engine.dispatcher.advance(order.task_id)
    return failed_by(making.team, task, order.task_id, step, commit.state) or TurnEnd.COMMITTED
