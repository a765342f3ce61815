"""turn: one model call by one agent, which becomes one step.

    claim ─► summary ─► prompt ─► rates ─► model ─► emit, emit, ... ─► append ─► commit ─► dispatch
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
from dataclasses import replace
from functools import partial
from typing import assert_never

from roboco.domain.decision.answer_checks import held_back
from roboco.domain.decision.decide import limit_step
from roboco.domain.history.part import TextPart
from roboco.domain.history.state import state_after
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import step_id_at
from roboco.domain.team.model_profile import REMOTE_AGENT, ModelProfile
from roboco.domain.url import strip_credentials
from roboco.engine import day_budgets
from roboco.engine.coordinate import outage
from roboco.engine.coordinate.next_step import NextStep
from roboco.engine.coordinate.pending_turn import restart_turn
from roboco.engine.coordinate.switched_off import turn_work
from roboco.engine.engine import Engine
from roboco.engine.record import rate_tickets as tickets
from roboco.engine.record import recover
from roboco.engine.record.event_archive import is_log_full
from roboco.engine.record.tool_listings import listings_for, wake_turn
from roboco.engine.run.attempt_outcome import TurnOutcome, TurnResult, stored_failure, task_failure
from roboco.engine.run.claimed_turn import Cancellation, ClaimedTurn
from roboco.engine.run.deferral import (
    defer,
    defer_for_outage,
    defer_for_provider_limit,
    defer_for_quarantine,
    defer_for_rate_limit,
    defer_for_switch,
    error_text,
    hand_over_turn,
    try_later,
)
from roboco.engine.run.remote_turn import cancel_turn, settle
from roboco.engine.run.reply import (
    StepContent,
    content_of_failure,
    content_of_reply,
    failure_metadata,
    interruption_metadata,
    reply_metadata,
    summary_metadata,
)
from roboco.engine.run.request import Choice, PreparedRequest, embed_files, first_choice, next_choice, prepare_request
from roboco.engine.run.summarize import (
    Deferred,
    Failed,
    Ready,
    Refused,
    SummaryResult,
    Throttled,
    ready_of,
    summary_for,
)
from roboco.engine.run.token_stream import TokenStream
from roboco.engine.usage import or_estimate, record_turn_metrics, unfinished_usage_metadata
from roboco.errors import Conflict, CorruptHistory, Erased, ModelError, NotRunnable, TransientError, UsageError
from roboco.ports.assignment import CANCELS, TurnAssignment
from roboco.ports.model import ModelStream, Reply
from roboco.ports.rate_limits import Admitted, Queued
from roboco.ports.remote_task import RemoteTask
from roboco.ports.snapshot import TokenUsage
from roboco.ports.task_store import Commit
from roboco.ports.telemetry import Operation, OperationSpan
from roboco.ports.tools import Listings, MissingListing

_log = logging.getLogger(__name__)


def run_turn(engine: Engine, order: TurnAssignment) -> TurnResult:
    """Run the turn, unless it is done, claimed by another worker, or cancelled."""
    operation = Operation("turn", order.task_id, order.seq, order.attempt)
    with engine.services.telemetry.operation(operation) as span:
        try:
            return _claim_and_run(engine, order, span)
        except Erased:  # a late message
            return TurnOutcome.OBSOLETE


def _claim_and_run(engine: Engine, order: TurnAssignment, span: OperationSpan) -> TurnResult:
    team = engine.workspace.frozen_teams.get(order.task_id)
    if order.attempt == CANCELS:
        span.discard()
        cancel_turn(engine, team, order)
        return TurnOutcome.OBSOLETE
    engine.process.switches.current()  # raise TransientError before an attempt begins if they cannot be read
    engine.tasks.schedule.schedule_no_later_than(order.task_id, engine.policy.lease)
    cancellation = Cancellation(engine)
    with engine.services.listen(order.task_id, order.epoch, cancellation.request):  # the claim reports earlier signals
        claim = engine.tasks.leases.claim_turn(order, engine.new_token(), team.tail_length)
        if claim is not None:
            turn = ClaimedTurn(engine, team, claim, cancellation, span, engine.clock.now())
            span.annotate(agent=turn.agent.name, model=turn.profile.model)
            return _hold_and_run(turn)
    span.discard()
    now = engine.tasks.task_store.load(order.task_id, 1)
    if now is None:
        return TurnOutcome.OBSOLETE
    pending = now.position.seq, now.position.epoch, now.attempt.number
    if now.attempt.claimed and pending == (order.seq, order.epoch, order.attempt):
        return TurnOutcome.CLAIMED_ELSEWHERE
    return stored_failure(team, now, order) or TurnOutcome.OBSOLETE


def _hold_and_run(turn: ClaimedTurn) -> TurnResult:
    """Run the claimed turn, unless it is switched off or waits for quarantine. Hand it over if this worker ends."""
    process, ends, lease = turn.engine.process, turn.cancellation, turn.claim.lease
    work = turn_work(turn.team, turn.task_id, turn.agent.name)
    if (switch := process.switches.blocking(work)) is not None:
        return defer_for_switch(turn, switch)
    with process.quarantine.admit(turn.task.attempt.counted, turn.engine.policy.max_attempts) as admitted:
        if not admitted:
            return defer_for_quarantine(turn)
        with (
            process.held_work.holding(work, ends.abandon, partial(hand_over_turn, turn)) as held,
            process.heartbeat.renewing(lease, ends.abandon, ends.request, turn.progress.note),
        ):
            result = _run_or_report(turn)
    return TurnOutcome.HANDED_OVER if held.reason and result is TurnOutcome.REPLACED else result


def _run_or_report(turn: ClaimedTurn) -> TurnResult:
    """Run the turn. Commit a permanent failure, with its cause, as the step. Repeat only what may succeed later."""
    try:
        return _run(turn.with_older_steps())
    except ModelError as error:
        if error.retryable:
            return try_later(turn, error)
        return _commit_turn(turn, content_of_failure(turn, error.code, str(error)), {})
    except TransientError as error:
        return try_later(turn, error)
    except (Conflict, CorruptHistory):
        raise
    except Exception as error:
        _log.exception("step %d of task %s fails", turn.claim.assignment.seq, turn.task_id)
        message = error_text(f"{type(error).__name__}: {error}")
        return _commit_turn(turn, content_of_failure(turn, "internal", message), {})


def _run(turn: ClaimedTurn) -> TurnResult:
    """Run the turn, unless tools, a budget or a summary let it wait. A turn that was cancelled does not wait."""
    try:
        listings = listings_for(turn.engine, turn.task_id, turn.team, turn.agent)
    except UsageError as error:
        return _commit_turn(turn, content_of_failure(turn, "team", str(error)), {})
    if isinstance(listings, MissingListing):
        if not turn.cancellation.requested:
            outcome = defer(turn, listings.seconds, listings.reason, TurnOutcome.DEFERRED)
            wake_turn(turn.engine, turn.task_id, listings.server)
            return outcome
        listings = {}
    wait = day_budgets.wait(turn.engine, turn.task_id, turn.agent.name)
    if wait is not None and not turn.cancellation.requested:
        return defer(turn, *wait, TurnOutcome.BUDGET)
    result = summary_for(turn)
    if not turn.cancellation.requested and (deferred := _wait_for_summary(turn, result)) is not None:
        return deferred
    return _ask(turn, result, listings, first_choice(turn))


def _ask(turn: ClaimedTurn, result: SummaryResult, listings: Listings, choice: Choice) -> TurnResult:
    """Ask for a reply, after a failure in another way as long as there is one, and commit the result."""
    while True:
        try:
            prepared = prepare_request(turn, result, listings, choice)
        except NotRunnable as error:
            where = f"agents worker {turn.engine.services.workers.node_name!r} cannot describe the agent's tools"
            content = content_of_failure(turn, error.code, f"{where}: {error.remedy('agents')}")
            return _commit_turn(turn, content, summary_metadata(ready_of(result)))
        except UsageError as error:
            return _commit_turn(turn, content_of_failure(turn, "team", str(error)), summary_metadata(ready_of(result)))
        if prepared.refused:
            step = limit_step(prepared.refused, turn.agent.name)  # `decide` chooses what follows
            metadata = step.metadata | summary_metadata(prepared.summary)
            return _commit_turn(turn, StepContent(step.parts), metadata, step.agent_name)
        if choice.too_long is not None and prepared.memory.tokens >= choice.too_long[0]:  # it has nothing to leave out
            refusal = choice.too_long[1]
            content = content_of_failure(turn, refusal.code, refusal.message)
            counted = ModelError(refusal.code, refusal.message, False)  # `choice.spent` has its tokens
            return _commit_turn(turn, content, failure_metadata(prepared, counted, [], choice.chunks))
        outcome = _request_reply(turn, prepared, choice)
        if not isinstance(outcome, Choice):
            return outcome
        choice = outcome


def _request_reply(turn: ClaimedTurn, prepared: PreparedRequest, choice: Choice) -> TurnResult | Choice:
    """Send the request, unless it must wait. Return what to try after a failure, or what became of the turn."""
    engine, task_id, profile = turn.engine, turn.task_id, prepared.request.profile
    wait = day_budgets.reserve(engine, task_id, turn.task, prepared.possible_usage, profile)
    if wait is not None and not turn.cancellation.requested:
        return defer(turn, *wait, TurnOutcome.BUDGET)
    admission = engine.services.rate_limiter.reserve(profile, turn.ticket, prepared.expected_tokens)
    if isinstance(admission, Queued):
        if not turn.cancellation.requested:
            return defer_for_rate_limit(turn, profile, admission.seconds)
        tickets.release_tickets(engine.services, turn.team, task_id, turn.task)
    request = embed_files(engine.workspace, task_id, prepared.request)
    if choice.fallback:  # it answers in place of a remote agent, perhaps
        settle(engine, turn.team, task_id, turn.task.position, closes=False)
    if profile.provider == REMOTE_AGENT:
        order = turn.claim.assignment
        remote = RemoteTask(engine.workspace.files, task_id, order.seq, order.epoch, str(profile.base_url))
        turn.messages.append(remote)
        request = replace(request, remote=remote)
    spent = TokenUsage(prepared.memory.tokens + choice.spent.tokens_in, choice.spent.tokens_out)
    output = TokenStream(engine, turn.claim, turn.cancellation, spent, choice.chunks, turn.team.holds_text)
    stream = engine.services.call_model(request, output.listener(profile))
    turn.cancellation.attach(stream)
    turn.progress.follow(profile, stream)
    return _stream_reply(turn, prepared, choice, output, stream, admission == Admitted(tasks_waiting=True))


def _wait_for_summary(turn: ClaimedTurn, result: SummaryResult) -> TurnOutcome | None:
    """Defer the turn if its next summary waits for a rate limit. Return None if the turn can run now."""
    match result:
        case Deferred(_, profile, seconds):
            return defer_for_rate_limit(turn, profile, seconds)
        case Throttled(_, profile, error):
            return defer_for_provider_limit(turn, profile, error)
        case Ready() | Refused() | Failed():
            return None
        case _ as unknown:
            assert_never(unknown)


def _stream_reply(
    turn: ClaimedTurn,
    prepared: PreparedRequest,
    choice: Choice,
    output: TokenStream,
    stream: ModelStream,
    awaited: bool,
) -> TurnResult | Choice:
    """Publish the reply and commit it as a step. If the reply is `awaited`, resume paused tasks after it."""
    cancellation = turn.cancellation
    reply: Reply | None = None
    failed_with: ModelError | None = None
    try:
        for piece in stream:
            reply = piece if isinstance(piece, Reply) else None
    except ModelError as error:
        failed_with = error
    finally:
        stream.close()
    status = output.close(whole=reply is not None or failed_with is not None)
    texts = output.texts
    if not status:
        return TurnOutcome.REPLACED
    if failed_with is not None and not cancellation.requested:
        return _handle_failure(turn, prepared, choice, output, failed_with)
    if reply is not None and not output.truncated:  # text that was not published before the requested end is dropped
        content = content_of_reply(turn, "".join(texts), reply, prepared)
        metadata = reply_metadata(prepared, reply) | {"chunks": output.chunk_count}
        outcome = _commit_turn(turn, content, metadata)
        _record_reply(turn, prepared.request.profile, reply, awaited)
        return outcome
    if not cancellation.requested:
        return TurnOutcome.REPLACED
    receipt = cancellation.receipt(turn.claim, stream, output.chunk_count)
    for message in turn.messages[-1:]:
        message.wait_answered()
    used = or_estimate(stream.usage, prepared.memory.tokens, texts)
    metadata = interruption_metadata(prepared, used, output.chunk_count, receipt)
    return _commit_turn(turn, StepContent((TextPart(text="".join(texts)),)), metadata)


def _record_reply(turn: ClaimedTurn, profile: ModelProfile, reply: Reply, awaited: bool) -> None:
    """Record the tokens of the reply, and that the model has answered. A failure is logged: the step is committed.

    If the tokens are not recorded, the estimate counts. Tasks that await the model are resumed after its next reply.
    """
    engine = turn.engine
    try:
        used, ago = reply.tokens_in + reply.tokens_out, reply.duration_ms / 1000
        engine.services.rate_limiter.record_usage(profile, turn.ticket, used, ago)
        if awaited:
            outage.schedule_resumptions(engine, profile, turn.ticket.tenant)
    except TransientError as error:
        _log.warning("a reply of model %s is not recorded for its rate limit: %s", profile.model, error)


def _handle_failure(
    turn: ClaimedTurn, prepared: PreparedRequest, choice: Choice, output: TokenStream, error: ModelError
) -> TurnResult | Choice:
    """Return another way to ask, start another attempt, or commit the error as the step if none can succeed."""
    texts, counted = output.texts, turn.task.attempt.counted
    if not texts and (other := next_choice(turn, choice, prepared.memory.tokens, error)) is not None:
        seq = turn.claim.assignment.seq
        _log.warning("step %d of task %s is requested in another way: %s", seq, turn.task_id, error)
        return replace(other, chunks=output.chunk_count)
    if error.code == "rate_limit" and not texts:
        return defer_for_provider_limit(turn, prepared.request.profile, error, choice.spent)
    if error.retryable and not texts:
        return defer_for_outage(turn, error, choice.spent)
    if texts and error.retryable and counted < turn.engine.policy.max_attempts:
        restart_turn(turn.engine, turn.task_id, turn.task, str(error), turn.claim.token)
        return TurnOutcome.CUT_OFF
    content = content_of_failure(turn, error.code, error.message, "".join(texts))
    return _commit_turn(turn, content, failure_metadata(prepared, error, texts, output.chunk_count))


def _commit_turn(
    turn: ClaimedTurn, content: StepContent, metadata: dict[str, object], agent_name: str | None = None
) -> TurnResult:
    """Append the step to the history, and commit it. If another step has the position, apply that one instead.

    The step is by the turn's agent, unless it has another `agent_name`. While the workspace does not answer, keep the
    step and append it again, for as long as this worker has the turn: the model is paid for it once. Raise
    TransientError if the turn is lost meanwhile, or if Redis does not answer: the step may be stored.
    """
    engine, order, task = turn.engine, turn.claim.assignment, turn.task
    chosen: dict[str, object] = {"attempt": order.attempt, "routing": task.position.routing}
    remote = turn.retry(
        lambda: settle(engine, turn.team, order.task_id, task.position, next(reversed(turn.messages), None)),
        f"the remote task of step {order.seq}",
    )
    parts, about = content.parts, metadata | content.metadata() | remote
    if agent_name is None and turn.team.holds_text:
        parts, about = held_back(turn.team, task.position.agent, (order.task_id, order.seq), parts, about)
    step = TaskStep(
        step_id=step_id_at(order.task_id, order.seq),
        seq=order.seq,
        agent_name=agent_name or task.position.agent,
        parts=parts,
        created_at=engine.now(),
        metadata=(chosen if agent_name is None else {}) | about | unfinished_usage_metadata(turn.team, task),
    ).sealed(task.state.last_digest)

    def append() -> TaskStep:
        try:
            return engine.workspace.histories.append(order.task_id, step)
        except TransientError as error:
            turn.progress.kept = strip_credentials(str(error))[:500]
            raise

    stored = turn.retry(append, f"step {step.seq}")
    turn.progress.kept = ""
    seconds = engine.clock.now() - turn.claimed_at
    record_turn_metrics(engine.services, turn.span, turn.profile.model, step, seconds)
    if stored.digest != step.digest:
        recover.catch_up(engine, order.task_id, task)
        engine.services.dispatcher.advance(order.task_id)
        return TurnOutcome.REPLACED
    events = recover.step_events(engine, order.task_id, step, task.steps.tail[-1])
    commit = Commit(step, state_after(task.state, step), events)
    continued = NextStep(engine, order.task_id, turn.team, task).commit_and_continue(commit)
    if not continued or is_log_full(engine, task):
        engine.services.dispatcher.advance(order.task_id)
    day_budgets.count_for_caller(engine, order.task_id, task.steps.first, commit.state)
    return task_failure(turn.team, task, order.task_id, step, commit.state) or TurnOutcome.COMMITTED
