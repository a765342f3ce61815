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
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.canonical_json import canonical
from roboco.domain.decision.tool_answers import answered_here, is_client, needs_approval, spec_of
from roboco.domain.history.part import ToolCall
from roboco.domain.history.step import TaskStep
from roboco.domain.history.tool_outcome import Outcome, failure, unknown
from roboco.domain.paths import intent_path, outcome_path
from roboco.domain.team.team import Team
from roboco.domain.team.tool_spec import AnyTool, ServerTool
from roboco.engine.coordinator.pending_calls import close_call, restart_call, result_event, stored_outcome
from roboco.engine.engine import Engine
from roboco.engine.execution.not_runnable import release_call
from roboco.engine.intake.answer import approved
from roboco.engine.record.tool_listings import refusal
from roboco.engine.retry import retry
from roboco.errors import NotRunnable
from roboco.ports import CallContext, CallOrder, Doing, Snapshot, Work
from roboco.ports.telemetry import TOOL_SECONDS

_log = logging.getLogger(__name__)

LOST = "the worker that ran this call was lost, or the call was ended because its time was up"


class CallEnd(StrEnum):
    """The result of an attempt to run a call. Flower shows its text."""

    DONE = "done, done before, or no longer wanted"
    TAKEN = "another worker has claimed this attempt"
    RELEASED = "released, because this worker lacks the tool's function: another worker runs it, or the task is paused"


def tool(engine: Engine, order: CallOrder) -> CallEnd:
    """Run the call, unless it is done, claimed by another worker, or cancelled."""
    work = Work("tool", order.task_id, order.seq, order.attempt, order.call_id)
    with engine.telemetry.work(work) as doing:
        return _claim_and_run(engine, order, doing)


def _claim_and_run(engine: Engine, order: CallOrder, doing: Doing) -> CallEnd:
    token = engine.token()
    team = engine.teams.get(order.task_id)
    engine.schedule.schedule_no_later_than(order.task_id, engine.policy.lease)
    cancellation = threading.Event()
    with engine.signals.listen(order.task_id, order.epoch, cancellation.set):
        if engine.calls.claim(order, token):
            with engine.heartbeat.renewing(lambda: engine.calls.renew(order, token), cancellation.set):
                return _run(engine, team, order, token, cancellation, doing)
    doing.void()
    now = engine.board.load(order.task_id, 1)
    call = None if now is None or now.epoch != order.epoch else now.calls.get(order.call_id)
    taken = call and call.claimed and call.attempt == order.attempt and call.outcome is None
    return CallEnd.TAKEN if taken else CallEnd.DONE


def _run(
    engine: Engine, team: Team, order: CallOrder, token: str, cancellation: threading.Event, doing: Doing
) -> CallEnd:
    task = engine.board.load(order.task_id, 1)
    if task is None or task.tail[-1].seq != order.seq:
        return CallEnd.DONE
    step = task.tail[-1]
    asked_for = next(call for call in step.calls if call.id == order.call_id)
    call = approved(engine, team, order.task_id, asked_for)
    if call is None:
        return CallEnd.DONE
    spec = spec_of(team, step, call)
    try:
        engine.toolbox.check(spec)
    except NotRunnable as error:
        release_call(engine, order, token, call, error)
        return CallEnd.RELEASED
    key = f"{order.task_id}/{call.id}"
    scope = task.state.scope
    context = CallContext(
        order.task_id, step.agent_name, call.id, key, order.attempt, scope, step.step_id, cancellation
    )
    work = _Work(engine, team, order, token, call, spec, context)
    doing.tell(agent=step.agent_name, tool=call.tool_name)
    began = engine.clock.now()
    outcome = work.outcome()
    if outcome is None:
        return CallEnd.DONE
    ended_as = "error" if outcome.result.is_error else "ok"
    engine.telemetry.note(TOOL_SECONDS, engine.clock.now() - began, call.tool_name, ended_as)
    if outcome.result.is_error:
        doing.tell(error="unknown" if outcome.unknown else "tool_error")
    kept = engine.calls.record(order, token, outcome, result_event(engine, order, call, outcome))
    if kept is not None and kept >= _run_at_once(team, task, step):
        engine.dispatcher.advance(order.task_id)
    return CallEnd.DONE


def _run_at_once(team: Team, task: Snapshot, step: TaskStep) -> int:
    """Return how many of the step's calls tools workers run without approval or a client."""
    here = answered_here(team, task.state, step)
    others = [call for call in step.calls if call.id not in here and not is_client(call)]
    return sum(1 for call in others if call.tool_name != DELEGATE and not needs_approval(team, call))


def overdue(engine: Engine, order: CallOrder, timeout: float) -> None:
    """Close a call whose process the pool killed after its time limit of `timeout` seconds.

    An irreversible call is restarted instead: the next attempt finds its outcome out and does not run it again.
    """
    work = Work("tool", order.task_id, order.seq, order.attempt, order.call_id)
    with engine.telemetry.work(work) as doing:
        _see_to_overdue(engine, order, timeout, doing)


def _see_to_overdue(engine: Engine, order: CallOrder, timeout: float, doing: Doing) -> None:
    task = engine.board.load(order.task_id, 1)
    if task is None or task.tail[-1].seq != order.seq:
        doing.void()
        return
    team = engine.teams.get(order.task_id)
    call = next(call for call in task.tail[-1].calls if call.id == order.call_id)
    doing.tell(agent=task.tail[-1].agent_name, tool=call.tool_name, error="timeout")
    engine.telemetry.note(TOOL_SECONDS, timeout, call.tool_name, "error")
    if _irreversible(spec_of(team, task.tail[-1], call)):
        restart_call(engine, team, order, call, lost=True)
    else:
        close_call(engine, order, call, failure(call.id, f"tool {call.tool_name!r} was killed after {timeout:g} s"))


@dataclass(frozen=True)
class _Work:
    """A call that this worker has claimed."""

    engine: Engine
    team: Team
    order: CallOrder
    token: str
    call: ToolCall
    spec: AnyTool | None
    context: CallContext

    def outcome(self) -> Outcome | None:
        """Run the call and return its outcome, or None if another attempt has replaced this one."""
        if self.spec is None or not _irreversible(self.spec):
            if (refused := self._refused()) is not None:
                return refused
            run = partial(self.engine.toolbox.run, self.team, self.call, self.spec, self.context)
            return self._whole(retry(self.engine, run, self._ours, self._named("call")))
        return self._once(self.spec)

    def _once(self, spec: AnyTool) -> Outcome | None:
        """Run an irreversible call, unless an earlier attempt has begun it: then return the outcome that is known.

        The lease is confirmed before the intent is stored, and again after that if storing took long: this process may
        have been suspended. An intent is never deleted, because a delayed deletion could delete another worker's.
        """
        asked_at = self.engine.clock.now()
        if not self._surely_ours():
            return None
        if (refused := self._refused()) is not None:
            return refused
        if not self._intend():
            return self._found_out(spec, stored_outcome(self.engine, self.context.task_id, self.call.id))
        if self.engine.clock.now() - asked_at > self.engine.policy.lease / 2 and not self._surely_ours():
            return None
        outcome = self._whole(self.engine.toolbox.run(self.team, self.call, spec, self.context))
        if outcome.unknown:
            outcome = self._found_out(spec, outcome)
        self._keep(outcome)
        return outcome

    def _refused(self) -> Outcome | None:
        """Return an outcome that refuses a call of an MCP server's tool, such as one that changed, or None to run it.

        If an earlier attempt has stored an intent, the call is not checked again, because it may have run.
        """
        spec, task_id = self.spec, self.context.task_id
        if not isinstance(spec, ServerTool):
            return None

        def judged() -> Outcome | None:
            begun = _irreversible(spec) and self.engine.files.size(intent_path(task_id, self.call.id)) is not None
            return None if begun else refusal(self.engine, self.team, task_id, self.call, spec)

        return retry(self.engine, judged, self._ours, self._named("the listing for call"))

    def _intend(self) -> bool:
        """Store the intent. Return True if this attempt is the first to store one; only then may it run the tool.

        If the store does not answer, or the pool stops this process at its time limit, release the call and raise.
        """
        path = intent_path(self.context.task_id, self.call.id)
        facts = {"call": self.call.model_dump(mode="json"), "attempt": self.context.attempt, "token": self.token}
        data = canonical(facts).encode()
        try:
            return retry(
                self.engine, lambda: self.engine.files.create(path, data), self._ours, self._named("the intent of call")
            )
        except Exception:
            self.engine.calls.give_back(self.order, self.token)
            raise

    def _keep(self, outcome: Outcome) -> None:
        path, data = outcome_path(self.context.task_id, self.call.id), outcome.model_dump_json().encode()
        what = self._named("the outcome of call")
        try:
            retry(self.engine, lambda: self.engine.files.put(path, data), self._ours, what)
        except Exception as error:  # the exception of the pool at the time limit is one, too
            _log.warning("%s is stored in Redis alone: %r", what, error)

    def _whole(self, outcome: Outcome) -> Outcome:
        """Return the outcome with a too large result stored in a file, or truncated if that cannot be stored."""
        keep = partial(self.engine.toolbox.keep, outcome, self.context)
        what = self._named("the large result of call")
        try:
            return retry(self.engine, keep, self._ours, what)
        except Exception as error:
            _log.warning("%s is truncated, because it cannot be stored: %r", what, error)
            return self.engine.toolbox.cut(outcome)

    def _found_out(self, spec: AnyTool, outcome: Outcome | None) -> Outcome:
        """Return the outcome of a call that has begun: the stored one, the one that its tool verifies, or unknown."""
        if outcome is not None and not outcome.unknown:
            return outcome
        found = self.engine.toolbox.verify(self.call, spec, self.context)
        return self._whole(found) if found else outcome or unknown(self.call.id, LOST, spec.on_unknown)

    def _ours(self) -> bool:
        return self.engine.calls.renew(self.order, self.token)

    def _surely_ours(self) -> bool:
        """Return True if this worker still has the lease. If Redis does not answer, try again for one lease time."""
        what = self._named("the lease of call")
        return retry(self.engine, self._ours, lambda: True, what, self.engine.policy.lease)

    def _named(self, what: str) -> str:
        return f"{what} {self.call.id} of task {self.context.task_id}"


def _irreversible(spec: AnyTool | None) -> bool:
    return spec is not None and spec.effect == "irreversible"
