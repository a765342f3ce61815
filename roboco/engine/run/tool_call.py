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
from itertools import takewhile
from typing import TypeVar

from roboco.domain.canonical_json import canonical_json
from roboco.domain.decision.tool_answers import by_coordinator, local_answers, needs_approval, spec_of, waits_for_client
from roboco.domain.history.part import ToolCall, ToolOutcome, failed_outcome, unknown_outcome
from roboco.domain.history.step import TaskStep
from roboco.domain.memory import memory_path
from roboco.domain.paths import intent_path, outcome_path
from roboco.domain.prompt.chat import ChatMessage
from roboco.domain.prompt.working_memory import conversation
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import StatusChanged
from roboco.domain.switch import SwitchableWork
from roboco.domain.team.team import Team
from roboco.domain.team.tool_spec import AgentFunction, PydanticTool, ServerTool, ToolDeclaration
from roboco.engine.accept.answer import approved_call
from roboco.engine.coordinate.close_call import close_call, result_event
from roboco.engine.coordinate.pending_calls import restart_call
from roboco.engine.coordinate.switched_off import call_work, cause_of_wait, check_delay
from roboco.engine.engine import Engine
from roboco.engine.held_work import HeldItem
from roboco.engine.record.effects import has_intent, stored_outcome
from roboco.engine.record.recorded_answers import recorded_answer
from roboco.engine.record.tool_listings import changed_tool_refusal, user_of
from roboco.engine.retry import retry
from roboco.engine.run.attempt_outcome import CallOutcome, SwitchedOff
from roboco.engine.run.deferral import hand_over_call
from roboco.errors import Erased, NotRunnable
from roboco.ports.assignment import ToolAssignment
from roboco.ports.lease_renewals import CallLease
from roboco.ports.snapshot import Snapshot
from roboco.ports.telemetry import TOOL_SECONDS, Operation, OperationSpan
from roboco.ports.tools import ToolContext

T = TypeVar("T")
_log = logging.getLogger(__name__)

LOST_REASON = "the worker that ran this call was lost, or the call was ended because its time was up"


def _is_irreversible(spec: ToolDeclaration | None) -> bool:
    """Return True if the tool has an effect that must not happen twice."""
    return spec is not None and spec.effect == "irreversible"


@dataclass(frozen=True)
class ClaimedCall:
    """A call that this worker has claimed."""

    engine: Engine
    team: Team
    order: ToolAssignment
    token: str
    call: ToolCall
    spec: ToolDeclaration | None
    context: ToolContext

    @property
    def irreversible(self) -> bool:
        """True if the tool has an effect that must not happen twice."""
        return _is_irreversible(self.spec)

    def interrupt(self) -> None:
        """Interrupt the tool. Another thread calls this."""
        self.context.cancellation.set()
        self.engine.process.held_work.host.interrupt_call()

    def run(self) -> ToolOutcome | None:
        """Run the call and return its outcome, or None if another attempt has replaced this one."""
        if self.spec is None or not self.irreversible:
            if (refused := self._refusal()) is not None:
                return refused
            run = partial(self.engine.services.toolbox.run, self.team, self.call, self.spec, self.context)
            return self._offload_large(self._retry(run, "call"))
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
            stored = stored_outcome(self.engine.workspace, self.context.task_id, self.call.id)
            return self._verified_outcome(spec, stored)
        if self.engine.clock.now() - confirmed_at > self.engine.policy.lease / 2 and not self._confirm_lease():
            return None
        outcome = self._offload_large(self.engine.services.toolbox.run(self.team, self.call, spec, self.context))
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
            begun = self.irreversible and has_intent(self.engine.workspace, task_id, self.call.id)
            return None if begun else changed_tool_refusal(self.engine, self.team, task_id, self.call, spec)

        return self._retry(judged, "the listing for call")

    def _store_intent(self) -> bool:
        """Store the intent. Return True if this attempt is the first to store one; only then may it run the tool.

        If the store does not answer, or the pool stops this process at its time limit, release the call and raise.
        """
        path = intent_path(self.context.task_id, self.call.id)
        facts = {"call": self.call.model_dump(mode="json"), "attempt": self.context.attempt, "token": self.token}
        data = canonical_json(facts).encode()
        try:
            return self._retry(lambda: self.engine.workspace.files.create(path, data), "the intent of call")
        except Exception:
            self.engine.tasks.leases.release_call(self.order, self.token)
            raise

    def _store_outcome(self, outcome: ToolOutcome) -> None:
        path, data = outcome_path(self.context.task_id, self.call.id), outcome.model_dump_json().encode()
        try:
            self._retry(lambda: self.engine.workspace.files.put(path, data), "the outcome of call")
        except Exception as error:  # the exception of the pool at the time limit is one, too
            _log.warning("%s is stored in Redis alone: %r", self._describe("the outcome of call"), error)

    def _offload_large(self, outcome: ToolOutcome) -> ToolOutcome:
        """Return the outcome with a too large result stored in a file, or truncated if that cannot be stored."""
        toolbox, what = self.engine.services.toolbox, "the large result of call"
        try:
            return self._retry(partial(toolbox.offload_large, outcome, self.context), what)
        except Exception as error:
            _log.warning("%s is truncated, because it cannot be stored: %r", self._describe(what), error)
            return toolbox.truncate_large(outcome)

    def _verified_outcome(self, spec: ToolDeclaration, outcome: ToolOutcome | None) -> ToolOutcome:
        """Return the outcome of a call that has begun: the stored one, the one that its tool verifies, or unknown."""
        if outcome is not None and not outcome.unknown:
            return outcome
        if found := self.engine.services.toolbox.verify(self.call, spec, self.context):
            return self._offload_large(found)
        return outcome or unknown_outcome(self.call.id, LOST_REASON, spec.on_unknown)

    def _renew_lease(self) -> bool:
        return bool(self.engine.tasks.leases.renew(_lease_of(self.order, self.token)))

    def _confirm_lease(self) -> bool:
        """Return True if this worker still has the lease. If Redis does not answer, try again for one lease time."""
        description = self._describe("the lease of call")
        return retry(self._renew_lease, lambda: True, description, self.engine.clock, self.engine.policy.lease)

    def _retry(self, operation: Callable[[], T], what: str) -> T:
        """Return the result of the operation, retried while its server does not answer and the lease is held."""
        clock, timeout = self.engine.clock, self.engine.policy.store_timeout
        return retry(operation, self._renew_lease, self._describe(what), clock, timeout)

    def _describe(self, what: str) -> str:
        return f"{what} {self.call.id} of task {self.context.task_id}"


def _lease_of(order: ToolAssignment, token: str) -> CallLease:
    return CallLease(order.task_id, order.epoch, order.call_id, token)


def run_call(engine: Engine, order: ToolAssignment) -> CallOutcome | SwitchedOff:
    """Run the call, unless it is done, claimed by another worker, or cancelled."""
    operation = Operation("tool", order.task_id, order.seq, order.attempt, order.call_id)
    with engine.services.telemetry.operation(operation) as span:
        try:
            return _claim_and_run(engine, order, span)
        except Erased:  # a late message
            return CallOutcome.DONE


def _claim_and_run(engine: Engine, order: ToolAssignment, span: OperationSpan) -> CallOutcome | SwitchedOff:
    token = engine.new_token()
    team = engine.workspace.frozen_teams.get(order.task_id)
    engine.process.switches.current()  # raise TransientError before an attempt begins if they cannot be read
    engine.tasks.schedule.schedule_no_later_than(order.task_id, engine.policy.lease)
    cancellation = threading.Event()
    with engine.services.listen(order.task_id, order.epoch, cancellation.set):
        if engine.tasks.leases.claim_call(order, token):
            lease = _lease_of(order, token)
            with engine.process.heartbeat.renewing(lease, cancellation.set):
                return _run(engine, team, order, token, cancellation, span)
    span.discard()
    now = engine.tasks.task_store.load(order.task_id, 1)
    call = None if now is None or now.position.epoch != order.epoch else now.calls.get(order.call_id)
    claimed_elsewhere = call and call.claimed and call.attempt == order.attempt and call.outcome is None
    return CallOutcome.CLAIMED_ELSEWHERE if claimed_elsewhere else CallOutcome.DONE


def _run(
    engine: Engine, team: Team, order: ToolAssignment, token: str, cancellation: threading.Event, span: OperationSpan
) -> CallOutcome | SwitchedOff:
    task = engine.tasks.task_store.load(order.task_id, 1)
    if task is None or task.steps.tail[-1].seq != order.seq:
        return CallOutcome.DONE
    step = task.steps.tail[-1]
    requested = next(call for call in step.calls if call.id == order.call_id)
    call = approved_call(engine.workspace, team, order.task_id, requested)
    if call is None:
        return CallOutcome.DONE
    work = call_work(team, order.task_id, step.agent_name, call)
    if (cause := cause_of_wait(engine, team, order.task_id, step.agent_name, call)) is not None:
        return _release_held_back(engine, order, token, task, cause)
    spec = spec_of(team, step, call)
    if (answered := recorded_answer(engine.workspace, team, order.task_id, task, call)) is not None:
        _record(engine, team, (order, token), task, answered)
        return CallOutcome.DONE
    try:
        engine.services.toolbox.check(spec)
    except NotRunnable as error:
        where = f"tools worker {engine.services.workers.node_name!r} cannot run tool {call.tool_name!r}"
        refused = failed_outcome(call.id, f"not run: {where}: {error.remedy('tools')}")
        _record(engine, team, (order, token), task, refused)
        return CallOutcome.DONE
    submitted = task.steps.first.metadata.get("context") or {}
    equal = [
        one.args for one in takewhile(lambda one: one.id != call.id, step.calls) if one.tool_name == call.tool_name
    ]
    needs_messages = isinstance(spec, AgentFunction | PydanticTool)
    context = ToolContext(
        order.task_id,
        step.agent_name,
        call.id,
        f"{order.task_id}/{call.id}",
        order.attempt,
        task.state.scope,
        step.step_id,
        cancellation,
        user=user_of(task),
        context=submitted,
        state=task.state.values,
        memory=memory_path(team.memory, order.task_id, submitted),
        earlier=tuple(equal),
        messages=_conversation(engine, team, task, order, step) if needs_messages else (),
    )
    claimed = ClaimedCall(engine, team, order, token, call, spec, context)
    span.annotate(agent=step.agent_name, tool=call.tool_name)
    began = engine.clock.now()
    with _holding(claimed, work) as held:
        outcome = _run_unless_interrupted(claimed, held)
        if outcome is None:
            return CallOutcome.HANDED_OVER if held.reason else CallOutcome.DONE
        recorded = _complete(claimed, outcome, task, began, span)
    return CallOutcome.DONE if recorded or not held.reason else CallOutcome.HANDED_OVER


def _conversation(
    engine: Engine, team: Team, task: Snapshot, order: ToolAssignment, step: TaskStep
) -> tuple[ChatMessage, ...]:
    """Return the messages for a function that is an agent. Cost: as the history of a turn's request."""
    loaded = engine.tasks.task_store.load(order.task_id, team.tail_length) or task
    loaded = engine.workspace.tails.complete(order.task_id, loaded, team.tail_length)
    return conversation(team.agent(step.agent_name), loaded.steps.first, loaded.steps.tail)


def _holding(claimed: ClaimedCall, work: SwitchableWork) -> AbstractContextManager[HeldItem]:
    """Hold the call, so that it is handed over if its worker shuts down. A call that must not run twice goes on."""

    def hand_over(_: str) -> None:
        hand_over_call(claimed.engine, claimed.team, claimed.order, claimed.token, claimed.call)

    if claimed.irreversible:
        return nullcontext(HeldItem(work, claimed.interrupt, hand_over))
    return claimed.engine.process.held_work.holding(work, claimed.interrupt, hand_over)


def _run_unless_interrupted(claimed: ClaimedCall, held: HeldItem) -> ToolOutcome | None:
    """Return the outcome of the call. Return None if it was interrupted, or if another attempt has replaced it.

    It is not interrupted after this: an exception while the outcome is recorded would show it as failed.
    """
    outcome: ToolOutcome | None = None
    held_work = claimed.engine.process.held_work
    try:
        try:
            outcome = claimed.run()
        finally:
            held_work.settle(held)
    except Exception:
        if not held.reason:
            raise
        held_work.settle(held)  # the interruption may have been raised before it was settled
    return None if held.reason and outcome is not None and outcome.result.is_error else outcome


def _complete(claimed: ClaimedCall, outcome: ToolOutcome, task: Snapshot, began: float, span: OperationSpan) -> bool:
    """Measure the call, and record its outcome. Return False if this worker does not hold the call any more."""
    engine, order, call = claimed.engine, claimed.order, claimed.call
    ended_as = "error" if outcome.result.is_error else "ok"
    engine.services.telemetry.record(TOOL_SECONDS, engine.clock.now() - began, call.tool_name, ended_as)
    if outcome.result.is_error:
        span.annotate(error="unknown" if outcome.unknown else "tool_error")
    return _record(engine, claimed.team, (order, claimed.token), task, outcome)


def _record(
    engine: Engine, team: Team, lease: tuple[ToolAssignment, str], task: Snapshot, outcome: ToolOutcome
) -> bool:
    """Record the outcome of a call, under the lease of its assignment. After the last call, wake a coordinator."""
    order, token = lease
    step = task.steps.tail[-1]
    call = next(one for one in step.calls if one.id == order.call_id)
    recorded = engine.tasks.leases.record_outcome(order, token, outcome, result_event(engine, order, call, outcome))
    if recorded is not None and recorded >= _count_unattended(team, task, step):
        engine.services.dispatcher.advance(order.task_id)
    return recorded is not None


def _release_held_back(engine: Engine, order: ToolAssignment, token: str, task: Snapshot, cause: str) -> SwitchedOff:
    """Release the call while there is a cause to wait. The sweeper checks that, and sends no message until then."""
    event = StatusChanged(task_id=order.task_id, timestamp=engine.now(), status=TaskStatus.RUNNING, reason=cause)
    engine.tasks.leases.release_call(order, token, event=event)
    engine.tasks.schedule.schedule_no_later_than(order.task_id, check_delay(engine, task))
    return SwitchedOff(cause)


def _count_unattended(team: Team, task: Snapshot, step: TaskStep) -> int:
    """Return how many of the step's calls tools workers run without approval or a client."""
    here = local_answers(team, task.state, step)
    others = [call for call in step.calls if call.id not in here and not waits_for_client(team, call)]
    return sum(1 for call in others if not by_coordinator(team, call) and not needs_approval(team, call))


def close_overdue_call(engine: Engine, order: ToolAssignment, timeout: float) -> None:
    """Close a call whose process the pool killed after its time limit of `timeout` seconds.

    An irreversible call is restarted instead: the next attempt finds its outcome out and does not run it again.
    """
    operation = Operation("tool", order.task_id, order.seq, order.attempt, order.call_id)
    with engine.services.telemetry.operation(operation) as span:
        task = engine.tasks.task_store.load(order.task_id, 1)
        step = None if task is None else task.steps.tail[-1]
        if step is None or step.seq != order.seq:
            span.discard()
            return
        team = engine.workspace.frozen_teams.get(order.task_id)
        call = next(call for call in step.calls if call.id == order.call_id)
        span.annotate(agent=step.agent_name, tool=call.tool_name, error="timeout")
        engine.services.telemetry.record(TOOL_SECONDS, timeout, call.tool_name, "error")
        if _is_irreversible(spec_of(team, step, call)):
            restart_call(engine, team, order, call, worker_lost=True)
        else:
            killed = failed_outcome(call.id, f"tool {call.tool_name!r} was killed after {timeout:g} s")
            close_call(engine, order, call, killed)
