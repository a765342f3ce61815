"""Choices that were written down: handing them out, and seeing to it that they are done.

A turn or call that no worker took is looked at with growing pauses, and handed out again if its message is gone:
a backlog is not multiplied. One that a worker took and dropped (its lease has ended) is voided and tried again, a
bounded number of times.
"""

import logging
from dataclasses import dataclass, replace

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.dead_letter import lost_work
from roboco.domain.decision.tool_answers import (
    BUILTIN_TIMEOUT,
    answered_here,
    is_client,
    needs_approval,
    told_outside,
    verdicts,
    waits_for_person,
)
from roboco.domain.history.part import ToolCall
from roboco.domain.history.priority import priority_of
from roboco.domain.history.tool_outcome import Outcome, failure, unknown
from roboco.domain.ids import step_id_at
from roboco.domain.inbox.item import Hold, Item
from roboco.domain.paths import intent_path, outcome_path
from roboco.domain.stream.event import AnyEvent, ToolReturned, ToolUnknown, TurnRestarted
from roboco.domain.team.team import Team
from roboco.domain.team.tool_spec import AnyTool
from roboco.engine.coordinator import delegate, outage
from roboco.engine.engine import Engine, Policy
from roboco.engine.record import recover
from roboco.errors import UsageError
from roboco.ports import AttemptEnd, CallOrder, CallState, Snapshot, TurnOrder
from roboco.ports.telemetry import LEASE_LOSSES, RESTARTS

_log = logging.getLogger(__name__)

SKEW = 2.0
"""Seconds by which the clocks of the machines may differ, without a message being announced twice."""
SOON = 1.0
"""Seconds until a turn that was restarted is looked after: a worker that stands still may have taken its message."""


def pause(policy: Policy, rings: int) -> float:
    """Seconds until a choice is looked at again that was found untaken `rings` times."""
    return min(policy.longest_pause, policy.ring_pause * 2.0 ** min(rings, 30))


def turn(engine: Engine, task_id: str, team: Team, task: Snapshot, ring: bool) -> bool | str:
    """See to a pending turn: whether to look again, or why no further attempt is made."""
    if not task.claimed:
        return _unclaimed(engine, task_id, team, task, ring)
    if task.lease_left > 0:
        _look_after_lease(engine, task_id, task.lease_left)
        return False
    if recover.catch_up(engine, task_id, task):
        return True
    if task.attempt >= engine.policy.attempts:
        reason = (
            f"{task.agent}'s turn was lost {task.attempt} times, with its worker or in the middle of its model's answer"
        )
        detail = f"{task.agent}, step {task.seq}"
        engine.dead.add(lost_work("turn", task_id, detail, reason, task.attempt, engine.now()))
        return reason
    if restart_turn(engine, task_id, task, "the worker that made it was lost"):
        engine.telemetry.note(LEASE_LOSSES, 1, "turn")
    return False


def _unclaimed(engine: Engine, task_id: str, team: Team, task: Snapshot, ring: bool) -> bool:
    """See to a turn that no worker makes: whether to look again."""
    cleared = _cleared(engine, task_id, task)
    if outage.is_over(engine, team, task) and outage.hold(engine, task_id, task):
        return True
    if task.due_in is not None:
        return _when_due(engine, task_id, task, task.due_in)
    if cleared or (ring and ring_again(engine, task_id, task)):
        engine.dispatcher.turn(_turn(task_id, task, task.epoch, task.attempt), task.agent)
    return False


def _turn(task_id: str, task: Snapshot, epoch: int, attempt: int) -> TurnOrder:
    return TurnOrder(task_id, task.seq, epoch, attempt, priority_of(task.first))


def _when_due(engine: Engine, task_id: str, task: Snapshot, seconds: float) -> bool:
    """Hand the turn out that was given back until a later time, once that has come; not to be looked at before."""
    if seconds > 0:
        engine.schedule.put(task_id, seconds)
    elif engine.turns.ring(task_id, task.epoch, again=True):
        engine.schedule.put(task_id, engine.policy.ring_pause)
        engine.dispatcher.turn(_turn(task_id, task, task.epoch, task.attempt), task.agent)
    return False


def restart_turn(engine: Engine, task_id: str, task: Snapshot, reason: str, token: str = "") -> bool:
    """Void the attempt and hand the turn out again; nothing happens, and False comes back, if somebody else did."""
    attempt = task.attempt + 1
    event = TurnRestarted(
        task_id=task_id,
        timestamp=engine.now(),
        step_id=step_id_at(task_id, task.seq),
        attempt=attempt,
        reason=reason,
    )
    epoch = engine.turns.restart(task_id, task.epoch, event, token)
    if epoch is None:
        return False
    engine.telemetry.note(RESTARTS, 1, "turn")
    engine.schedule.put(task_id, min(SOON, engine.policy.ring_pause))
    engine.dispatcher.turn(_turn(task_id, task, epoch, attempt), task.agent)
    return True


def end_turn(engine: Engine, task_id: str, task: Snapshot) -> bool | None:
    """See to a pending turn that somebody wants to end: whether to look again, or None if it can be passed over.

    Its worker, which closes the model's connection and stores what was said, is given `grace` for that.
    """
    if task.cut_age is None:  # the one who asked died before saying so
        engine.inbox.add(task_id, (), urgent=True, epoch=task.epoch)
        return True
    if not task.claimed:
        return None
    left = min(task.lease_left, engine.policy.grace - task.cut_age)
    if left > 0:
        engine.schedule.put(task_id, left + 0.05)
        return False
    return True if recover.catch_up(engine, task_id, task) else None


def dispatch_call(engine: Engine, team: Team, task: Snapshot, order: CallOrder, call: ToolCall) -> None:
    """Announce the call to the tool workers, or give its work to another team."""
    if call.tool_name != DELEGATE:
        _send(engine, team, order, call)
        return
    try:
        delegate.begin(engine, order.task_id, team, task, call)
    except UsageError as error:
        close_call(engine, order, call, failure(call.id, f"the work could not be given away: {error}"))


@dataclass(frozen=True)
class PendingCalls:
    """The calls of the last step that workers run, or other teams: those that a person must approve, once one has."""

    engine: Engine
    task_id: str
    team: Team
    task: Snapshot
    inbox: tuple[Item, ...]

    def see_to(self, ring: bool) -> bool:
        """Have the open calls run. Return False if none is open, or if no worker can run those that are.

        With `ring`, announce again what no worker has claimed.
        """
        open_calls = self._open()
        if open_calls and all(self._is_held(call, state) for call, state in open_calls):
            return False
        untaken = [pair for pair in open_calls if not pair[1].claimed]
        again = _cleared(self.engine, self.task_id, self.task)
        again = again or (bool(untaken) and ring and ring_again(self.engine, self.task_id, self.task))
        for call, state in untaken:
            now = again or needs_approval(self.team, call)  # which a person may have approved only now
            if now and not self._is_held(call, state):
                dispatch_call(self.engine, self.team, self.task, self._order(call, state), call)
        for call, state in open_calls:
            if state.claimed and state.lease_left <= 0:
                restart_call(self.engine, self.team, self._order(call, state), call)
        if taken := [state.lease_left for _, state in open_calls if state.claimed]:
            if untaken:
                self.engine.schedule.schedule_no_later_than(self.task_id, min(taken) + 0.05)
            else:
                _look_after_lease(self.engine, self.task_id, min(taken))
        return bool(open_calls)

    def _open(self) -> list[tuple[ToolCall, CallState]]:
        step, calls = self.task.tail[-1], self.task.calls
        outcomes = {call_id: state.outcome for call_id, state in calls.items() if state.outcome is not None}
        done = {**answered_here(self.team, self.task.state, step), **outcomes}
        told, judged = told_outside(step, self.inbox, outcomes), verdicts(step, self.inbox)
        return [
            (call, calls.get(call.id, CallState()))
            for call in step.calls
            if call.id not in done and call.id not in told and not is_client(call)
            if call.id in judged or not needs_approval(self.team, call)
        ]

    def _is_held(self, call: ToolCall, state: CallState) -> bool:
        """Return True if no worker can run the call, so that the task has to be paused."""
        held = (item for item in self.inbox if isinstance(item, Hold) and item.at == self.task.seq)
        return not state.claimed and any(item.call_id == call.id for item in held)

    def _order(self, call: ToolCall, state: CallState) -> CallOrder:
        task = self.task
        return CallOrder(self.task_id, task.seq - 1, task.epoch, call.id, state.attempt, priority_of(task.first))


def timeout_of(spec: AnyTool | None) -> float:
    """Seconds that a call of the tool may take."""
    return BUILTIN_TIMEOUT if spec is None else spec.timeout


def close_call(engine: Engine, order: CallOrder, call: ToolCall, outcome: Outcome) -> None:
    """Record the outcome of a call whose worker cannot: its time is up, or it was lost too often."""
    if engine.calls.record(order, None, outcome, told(engine, order, call, outcome)) is not None:
        engine.dispatcher.advance(order.task_id)


def told(engine: Engine, order: CallOrder, call: ToolCall, outcome: Outcome) -> AnyEvent:
    """What followers are told of an outcome: the result, or that a person has to say what it is."""
    task_id, now, name = order.task_id, engine.now(), call.tool_name
    if not waits_for_person(outcome):
        return ToolReturned(task_id=task_id, timestamp=now, tool_name=name, tool_result=outcome.result)
    reason = outcome.result.error or ""
    return ToolUnknown(task_id=task_id, timestamp=now, tool_name=name, tool_call_id=call.id, reason=reason)


def restart_call(engine: Engine, team: Team, order: CallOrder, call: ToolCall, lost: bool = False) -> None:
    """Void the attempt and hand the call out again, a bounded number of times.

    With `lost` its worker is known to be gone, whatever the lease says.
    """
    begun = engine.files.get(intent_path(order.task_id, call.id)) is not None
    if order.attempt >= engine.policy.attempts + begun:  # who comes after a worker that began it only finds out
        if not lost:  # of one that is known to be gone its pool has said so
            engine.dispatcher.ended(order, call.tool_name, AttemptEnd.LOST)
        close_call(engine, order, call, _lost_too_often(engine, team, order, call, begun))
        return
    attempt = engine.calls.restart(order, lost)
    if attempt is not None:
        engine.telemetry.note(RESTARTS, 1, "tool")
        if not lost:
            engine.telemetry.note(LEASE_LOSSES, 1, "tool")
        _send(engine, team, replace(order, attempt=attempt), call)


def stored_outcome(engine: Engine, task_id: str, call_id: str) -> Outcome | None:
    """The outcome of an irreversible call, as its worker has stored it."""
    data = engine.files.get(outcome_path(task_id, call_id))
    return Outcome.model_validate_json(data) if data else None


def _lost_too_often(engine: Engine, team: Team, order: CallOrder, call: ToolCall, begun: bool) -> Outcome:
    if begun and (stored := stored_outcome(engine, order.task_id, call.id)) is not None:
        return stored
    why = f"tool {call.tool_name!r} was lost {order.attempt} times, with the worker that ran it"
    detail = f"{call.tool_name}, call {call.id}"
    engine.dead.add(lost_work("tool", order.task_id, detail, why, order.attempt, engine.now()))
    _log.warning("task %s: %s; the call is not tried again, and a dead letter is stored", order.task_id, why)
    spec = team.tool(call.tool_name)  # its effect does not matter here, since it was begun
    if spec is None or not begun:
        return failure(call.id, why)
    return unknown(call.id, why, spec.on_unknown)


def _send(engine: Engine, team: Team, order: CallOrder, call: ToolCall) -> None:
    engine.dispatcher.tool(order, call.tool_name, timeout_of(team.tool(call.tool_name)))


def ring_again(engine: Engine, task_id: str, task: Snapshot) -> bool:
    """Whether to announce the pending choice once more, since its message is not in the queue any more.

    Queues are first in, first out: as long as an older message waits, ours does.
    """
    since = engine.dispatcher.waiting_since(task.phase, task_id, priority_of(task.first))
    gone = since is None or since > task.handed_at + SKEW
    rings = engine.turns.ring(task_id, task.epoch, gone)
    if rings:
        engine.schedule.put(task_id, pause(engine.policy, rings))
    return gone and rings > 0


def _cleared(engine: Engine, task_id: str, task: Snapshot) -> bool:
    """Whether it was to end, but nothing waits any more that says so: then what nobody took is announced again.

    What said so was taken over before, and came a second time.
    """
    if task.cut_age is None:
        return False
    engine.inbox.clear_cancellation(task_id, task.epoch)
    return True


def _look_after_lease(engine: Engine, task_id: str, lease_left: float) -> None:
    engine.schedule.put(task_id, max(lease_left, 0.0) + 0.05)
