"""tool_call: run one tool call.

    claim ─► [intent] ─► run ─► [outcome] ─► record ─► wake-up message to the coordinator, after the last call
    (once    (create)           (put)        (fenced, once)
    per attempt)

Two-phase effects: an irreversible tool has an effect that must not happen twice, and no transaction spans the tool and
the workspace. So the worker stores an intent before it runs the tool, and the outcome after that. Both files outlive
the worker:

    no intent             the tool has not begun: the next attempt runs it
    intent, no outcome    the tool may have had its effect: it is never run again. Its `verify` finds the outcome out;
                          without `verify` the outcome is unknown, and goes to the agent or to a person
    outcome               the tool has run: the next attempt records this outcome

The intent is created, not put: of two attempts that overlap, one creates it and runs the tool. Tools that are not
irreversible run again with every attempt, with neither file.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.canonical_json import canonical_json
from roboco.domain.decision.tool_answers import local_answers, needs_approval, spec_of, waits_for_client
from roboco.domain.history.part import ToolCall
from roboco.domain.history.step import TaskStep
from roboco.domain.history.tool_outcome import ToolOutcome, failed_outcome, unknown_outcome
from roboco.domain.paths import intent_path, outcome_path
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import StatusChanged
from roboco.domain.switch import Switch, SwitchableWork
from roboco.domain.team.team import Team
from roboco.domain.team.tool_spec import ServerTool, ToolDeclaration
from roboco.engine.coordinator.close_call import close_call, result_event
from roboco.engine.coordinator.pending_calls import restart_call, stored_outcome
from roboco.engine.coordinator.switched_off import call_work, check_delay
from roboco.engine.engine import Engine
from roboco.engine.execution.attempt_outcome import CallOutcome, SwitchedOff
from roboco.engine.execution.hand_over import hand_over_call
from roboco.engine.execution.not_runnable import release_call
from roboco.engine.held_work import HeldItem
from roboco.engine.intake.answer import approved_call
from roboco.engine.record.recorded_answers import recorded_answer
from roboco.engine.record.tool_listings import changed_tool_refusal
from roboco.engine.retry import retry
from roboco.errors import NotRunnable
from roboco.ports.assignment import ToolAssignment
from roboco.ports.lease_renewals import CallLease
from roboco.ports.task_store import Snapshot
from roboco.ports.telemetry import TOOL_SECONDS, Operation, OperationSpan
from roboco.ports.tools import ToolContext

T = TypeVar("T")
_log = logging.getLogger(__name__)

LOST_REASON = "the worker that ran this call was lost, or the call was ended because its time was up"


def run_call(engine: Engine, order: ToolAssignment) -> CallOutcome | SwitchedOff:
    """Run the call, unless it is done, claimed by another worker, or cancelled."""
    operation = Operation("tool", order.task_id, order.seq, order.attempt, order.call_id)
    with engine.telemetry.operation(operation) as span:
        return _claim_and_run(engine, order, span)


def _claim_and_run(engine: Engine, order: ToolAssignment, span: OperationSpan) -> CallOutcome | SwitchedOff:
    token = engine.new_token()
    team = engine.frozen_teams.get(order.task_id)
    engine.switches.current()  # raise TransientError before an attempt begins if they cannot be read
    engine.schedule.schedule_no_later_than(order.task_id, engine.policy.lease)
    cancellation = threading.Event()
    with engine.signals.listen(order.task_id, order.epoch, cancellation.set):
        if engine.calls.claim(order, token):
            lease = CallLease(order.task_id, order.epoch, order.call_id, token)
            with engine.heartbeat.renewing(lease, cancellation.set):
                return _run(engine, team, order, token, cancellation, span)
    span.discard()
    now = engine.task_store.load(order.task_id, 1)
    call = None if now is None or now.epoch != order.epoch else now.calls.get(order.call_id)
    claimed_elsewhere = call and call.claimed and call.attempt == order.attempt and call.outcome is None
    return CallOutcome.CLAIMED_ELSEWHERE if claimed_elsewhere else CallOutcome.DONE


def _run(
    engine: Engine, team: Team, order: ToolAssignment, token: str, cancellation: threading.Event, span: OperationSpan
) -> CallOutcome | SwitchedOff:
    task = engine.task_store.load(order.task_id, 1)
    if task is None or task.tail[-1].seq != order.seq:
        return CallOutcome.DONE
    step = task.tail[-1]
    requested = next(call for call in step.calls if call.id == order.call_id)
    call = approved_call(engine, team, order.task_id, requested)
    if call is None:
        return CallOutcome.DONE
    work = call_work(team, order.task_id, step.agent_name, call)
    if (switch := engine.switches.blocking(work)) is not None:
        return _release_switched_off(engine, order, token, task, switch)
    spec = spec_of(team, step, call)
    if (answered := recorded_answer(engine, team, order.task_id, task, call)) is not None:
        _record(engine, team, (order, token), task, answered)
        return CallOutcome.DONE
    try:
        engine.toolbox.check(spec)
    except NotRunnable as error:
        release_call(engine, order, token, call, error)
        return CallOutcome.RELEASED
    key = f"{order.task_id}/{call.id}"
    scope = task.state.scope
    context = ToolContext(
        order.task_id, step.agent_name, call.id, key, order.attempt, scope, step.step_id, cancellation
    )
    claimed = _ClaimedCall(engine, team, order, token, call, spec, context)
    span.annotate(agent=step.agent_name, tool=call.tool_name)
    began = engine.clock.now()
    with _holding(claimed, work) as held:
        outcome = _run_unless_interrupted(claimed, held)
        if outcome is None:
            return CallOutcome.HANDED_OVER if held.reason else CallOutcome.DONE
        _complete(claimed, outcome, task, began, span)
    return CallOutcome.DONE


def _holding(claimed: "_ClaimedCall", work: SwitchableWork) -> AbstractContextManager[HeldItem]:
    """Hold the call, so that it is handed over if its worker shuts down. A call that must not run twice goes on."""
    if _irreversible(claimed.spec):
        return nullcontext(HeldItem(work, claimed.interrupt, claimed.hand_over))
    return claimed.engine.held_work.holding(work, claimed.interrupt, claimed.hand_over)


def _run_unless_interrupted(claimed: "_ClaimedCall", held: HeldItem) -> ToolOutcome | None:
    """Return the outcome of the call. Return None if it was interrupted, or if another attempt has replaced it."""
    outcome: ToolOutcome | None = None
    try:
        outcome = claimed.run()
        held.settle()
    except Exception:
        if not held.reason:
            raise
    return None if held.reason and outcome is not None and outcome.result.is_error else outcome


def _complete(claimed: "_ClaimedCall", outcome: ToolOutcome, task: Snapshot, began: float, span: OperationSpan) -> None:
    """Measure the call, and record its outcome."""
    engine, order, call = claimed.engine, claimed.order, claimed.call
    ended_as = "error" if outcome.result.is_error else "ok"
    engine.telemetry.record(TOOL_SECONDS, engine.clock.now() - began, call.tool_name, ended_as)
    if outcome.result.is_error:
        span.annotate(error="unknown" if outcome.unknown else "tool_error")
    _record(engine, claimed.team, (order, claimed.token), task, outcome)


def _record(
    engine: Engine, team: Team, lease: tuple[ToolAssignment, str], task: Snapshot, outcome: ToolOutcome
) -> None:
    """Record the outcome of a call, under the lease of its assignment. After the last call, wake a coordinator."""
    order, token = lease
    step = task.tail[-1]
    call = next(one for one in step.calls if one.id == order.call_id)
    recorded = engine.calls.record_outcome(order, token, outcome, result_event(engine, order, call, outcome))
    if recorded is not None and recorded >= _count_unattended(team, task, step):
        engine.dispatcher.advance(order.task_id)


def _release_switched_off(
    engine: Engine, order: ToolAssignment, token: str, task: Snapshot, switch: Switch
) -> SwitchedOff:
    """Release the call until an operator switches it on. The sweeper checks that, and sends no message until then."""
    event = StatusChanged(task_id=order.task_id, timestamp=engine.now(), status=TaskStatus.RUNNING, reason=switch.cause)
    engine.calls.release(order, token, event=event)
    engine.schedule.schedule_no_later_than(order.task_id, check_delay(engine, task))
    return SwitchedOff(switch.cause)


def _count_unattended(team: Team, task: Snapshot, step: TaskStep) -> int:
    """Return how many of the step's calls tools workers run without approval or a client."""
    here = local_answers(team, task.state, step)
    others = [call for call in step.calls if call.id not in here and not waits_for_client(team, call)]
    return sum(1 for call in others if call.tool_name != DELEGATE and not needs_approval(team, call))


def close_overdue_call(engine: Engine, order: ToolAssignment, timeout: float) -> None:
    """Close a call whose process the pool killed after its time limit of `timeout` seconds.

    An irreversible call is restarted instead: the next attempt finds its outcome out and does not run it again.
    """
    operation = Operation("tool", order.task_id, order.seq, order.attempt, order.call_id)
    with engine.telemetry.operation(operation) as span:
        _close_overdue(engine, order, timeout, span)


def _close_overdue(engine: Engine, order: ToolAssignment, timeout: float, span: OperationSpan) -> None:
    task = engine.task_store.load(order.task_id, 1)
    if task is None or task.tail[-1].seq != order.seq:
        span.discard()
        return
    team = engine.frozen_teams.get(order.task_id)
    call = next(call for call in task.tail[-1].calls if call.id == order.call_id)
    span.annotate(agent=task.tail[-1].agent_name, tool=call.tool_name, error="timeout")
    engine.telemetry.record(TOOL_SECONDS, timeout, call.tool_name, "error")
    if _irreversible(spec_of(team, task.tail[-1], call)):
        restart_call(engine, team, order, call, worker_lost=True)
    else:
        close_call(
            engine, order, call, failed_outcome(call.id, f"tool {call.tool_name!r} was killed after {timeout:g} s")
        )


@dataclass(frozen=True)
class _ClaimedCall:
    """A call that this worker has claimed."""

    engine: Engine
    team: Team
    order: ToolAssignment
    token: str
    call: ToolCall
    spec: ToolDeclaration | None
    context: ToolContext

    def interrupt(self) -> None:
        """Interrupt the tool. Another thread calls this."""
        self.context.cancellation.set()
        self.engine.held_work.host.interrupt_call()

    def hand_over(self, _: str) -> None:
        """Let another worker run the call."""
        hand_over_call(self.engine, self.team, self.order, self.token, self.call)

    def run(self) -> ToolOutcome | None:
        """Run the call and return its outcome, or None if another attempt has replaced this one."""
        if self.spec is None or not _irreversible(self.spec):
            if (refused := self._refusal()) is not None:
                return refused
            run = partial(self.engine.toolbox.run, self.team, self.call, self.spec, self.context)
            return self._offload_large(self._retry(run, self._describe("call")))
        return self._run_once(self.spec)

    def _run_once(self, spec: ToolDeclaration) -> ToolOutcome | None:
        """Run an irreversible call, unless an earlier attempt has begun it: then return the outcome that is known.

        The lease is confirmed before the intent is stored, and again after that if storing took long: this process may
        have been suspended. An intent is never deleted, because a delayed deletion could delete another worker's.
        """
        confirmed_at = self.engine.clock.now()
        if not self._confirm_lease():
            return None
        if (refused := self._refusal()) is not None:
            return refused
        if not self._store_intent():
            return self._verified_outcome(spec, stored_outcome(self.engine, self.context.task_id, self.call.id))
        if self.engine.clock.now() - confirmed_at > self.engine.policy.lease / 2 and not self._confirm_lease():
            return None
        outcome = self._offload_large(self.engine.toolbox.run(self.team, self.call, spec, self.context))
        if outcome.unknown:
            outcome = self._verified_outcome(spec, outcome)
        self._store_outcome(outcome)
        return outcome

    def _refusal(self) -> ToolOutcome | None:
        """Return an outcome that refuses a call of an MCP server's tool, such as one that changed, or None to run it.

        If an earlier attempt has stored an intent, the call is not checked again, because it may have run.
        """
        spec, task_id = self.spec, self.context.task_id
        if not isinstance(spec, ServerTool):
            return None

        def judged() -> ToolOutcome | None:
            begun = _irreversible(spec) and self.engine.files.size(intent_path(task_id, self.call.id)) is not None
            return None if begun else changed_tool_refusal(self.engine, self.team, task_id, self.call, spec)

        return self._retry(judged, self._describe("the listing for call"))

    def _store_intent(self) -> bool:
        """Store the intent. Return True if this attempt is the first to store one; only then may it run the tool.

        If the store does not answer, or the pool stops this process at its time limit, release the call and raise.
        """
        path = intent_path(self.context.task_id, self.call.id)
        facts = {"call": self.call.model_dump(mode="json"), "attempt": self.context.attempt, "token": self.token}
        data = canonical_json(facts).encode()
        try:
            return self._retry(lambda: self.engine.files.create(path, data), self._describe("the intent of call"))
        except Exception:
            self.engine.calls.release(self.order, self.token)
            raise

    def _store_outcome(self, outcome: ToolOutcome) -> None:
        path, data = outcome_path(self.context.task_id, self.call.id), outcome.model_dump_json().encode()
        description = self._describe("the outcome of call")
        try:
            self._retry(lambda: self.engine.files.put(path, data), description)
        except Exception as error:  # the exception of the pool at the time limit is one, too
            _log.warning("%s is stored in Redis alone: %r", description, error)

    def _offload_large(self, outcome: ToolOutcome) -> ToolOutcome:
        """Return the outcome with a too large result stored in a file, or truncated if that cannot be stored."""
        offload = partial(self.engine.toolbox.offload_large, outcome, self.context)
        description = self._describe("the large result of call")
        try:
            return self._retry(offload, description)
        except Exception as error:
            _log.warning("%s is truncated, because it cannot be stored: %r", description, error)
            return self.engine.toolbox.truncate_large(outcome)

    def _verified_outcome(self, spec: ToolDeclaration, outcome: ToolOutcome | None) -> ToolOutcome:
        """Return the outcome of a call that has begun: the stored one, the one that its tool verifies, or unknown."""
        if outcome is not None and not outcome.unknown:
            return outcome
        found = self.engine.toolbox.verify(self.call, spec, self.context)
        return (
            self._offload_large(found)
            if found
            else outcome or unknown_outcome(self.call.id, LOST_REASON, spec.on_unknown)
        )

    def _renew_lease(self) -> bool:
        return self.engine.calls.renew(self.order, self.token)

    def _confirm_lease(self) -> bool:
        """Return True if this worker still has the lease. If Redis does not answer, try again for one lease time."""
        description = self._describe("the lease of call")
        return retry(self._renew_lease, lambda: True, description, self.engine.clock, self.engine.policy.lease)

    def _retry(self, operation: Callable[[], T], description: str) -> T:
        """Return the result of the operation, retried while its server does not answer and the lease is held."""
        clock, timeout = self.engine.clock, self.engine.policy.store_timeout
        return retry(operation, self._renew_lease, description, clock, timeout)

    def _describe(self, what: str) -> str:
        return f"{what} {self.call.id} of task {self.context.task_id}"


def _irreversible(spec: ToolDeclaration | None) -> bool:
    return spec is not None and spec.effect == "irreversible"
