"""pending_calls: dispatch the recorded tool calls of a task, and check them until each has an outcome.

A call of an irreversible tool has two phases: its worker stores an intent before the effect, and the outcome after it.
If the worker is lost between the two, the effect may have happened. So an attempt after an intent does not execute the
call: it verifies the effect. That is why a call with an intent has one attempt more than other work.
"""

import logging
from dataclasses import dataclass, replace

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.decision.tool_answers import (
    approval_decisions,
    ended_outcome,
    external_results,
    local_answers,
    needs_approval,
    waits_for_client,
)
from roboco.domain.history.part import ToolCall, ToolOutcome
from roboco.domain.inbox.item import Item
from roboco.domain.team.team import Team
from roboco.engine.coordinate.close_call import close_call
from roboco.engine.coordinate.delegate import start_sub_tasks
from roboco.engine.coordinate.next_step import dispatch_call
from roboco.engine.coordinate.pending_turn import (
    EXPIRY_MARGIN,
    Decide,
    Rest,
    clear_stale_cancellation,
    needs_redelivery,
    schedule_check_after_lease,
    wait_for_renewal,
)
from roboco.engine.coordinate.shop_task import check_shop_task
from roboco.engine.coordinate.switched_off import cause_of_wait, check_delay
from roboco.engine.engine import Engine, store_dead_letter
from roboco.engine.record.effects import has_intent, stored_outcome
from roboco.ports.assignment import ToolAssignment
from roboco.ports.dispatcher import AttemptStatus
from roboco.ports.snapshot import CallState, Snapshot
from roboco.ports.telemetry import ATTEMPT_RESTARTS, LEASE_EXPIRATIONS

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PendingCalls:
    """The calls of the last step that workers, sub-tasks or Celery tasks of other applications execute.

    A call that needs an approval belongs to them once a person has approved it.
    """

    engine: Engine
    task_id: str
    team: Team
    task: Snapshot
    inbox: tuple[Item, ...]

    def check(self, by_sweeper: bool) -> Rest | Decide:
        """Have the open calls executed. Return Decide if none is open.

        The sweeper sends the messages of unclaimed calls again if they were lost.
        """
        open_calls = self._open_calls()
        unclaimed = [pair for pair in open_calls if not pair[1].claimed and not self._is_shop_task(pair[0])]
        again = clear_stale_cancellation(self.engine.tasks, self.task_id, self.task)
        # the approvals of these may have just arrived
        due = {call.id for call, _ in unclaimed if needs_approval(self.team, call)}
        if unclaimed and by_sweeper:
            due = self._due(unclaimed, due)
        startable = [(self._assignment(call), call) for call, _ in unclaimed]
        for assignment, call in startable:
            if call.tool_name != DELEGATE and (again or call.id in due):
                dispatch_call(self.engine.services, self.team, assignment, call)
        delegating = [pair for pair in startable if pair[1].tool_name == DELEGATE]
        start_sub_tasks(self.engine, self.team, self.task, delegating, None if again else due)
        expired = [(call, state) for call, state in open_calls if state.claimed and state.lease_left <= 0]
        if expired and wait_for_renewal(self.engine, self.task_id, by_sweeper):
            return Rest()
        for call, _ in expired:
            restart_call(self.engine, self.team, self._assignment(call), call)
        self._schedule_check(open_calls)
        self._check_shop_tasks(open_calls, by_sweeper)
        return Rest() if open_calls else Decide()

    def _due(self, unclaimed: list[tuple[ToolCall, CallState]], approved: set[str]) -> set[str]:
        """Return the ids of the calls to dispatch, of which some are `approved`, and schedule the next check.

        A call that is held back waits. One that has waited is dispatched at once: no message of it is under way. The
        others are dispatched if their messages were lost. The delays of their checks do not count for calls that wait.
        """
        causes = self._held_back(unclaimed)
        waiting = [pair for pair in unclaimed if pair[1].waits or pair[0].id in causes]
        others = {call.id for call, state in unclaimed if not state.waits and call.id not in causes}
        lost = others if others and needs_redelivery(self.engine, self.task_id, self.task) else set[str]()
        why = next(iter(causes.values()), "")
        ended = {
            call.id
            for call, _ in waiting
            if call.id not in causes and self.engine.tasks.leases.end_wait(self._assignment(call), why)
        }
        if waiting:
            delay = check_delay(self.engine, self.task) if causes else self.engine.policy.redelivery_delay
            schedule = self.engine.tasks.schedule
            (schedule.schedule_no_later_than if others else schedule.set)(self.task_id, delay)
        return lost | ended | (approved - causes.keys())

    def _held_back(self, unclaimed: list[tuple[ToolCall, CallState]]) -> dict[str, str]:
        """Return the causes for which calls are held back, by their ids."""
        agent = self.task.steps.tail[-1].agent_name
        found = {call.id: cause_of_wait(self.engine, self.team, self.task_id, agent, call) for call, _ in unclaimed}
        return {call_id: cause for call_id, cause in found.items() if cause is not None}

    def _schedule_check(self, open_calls: list[tuple[ToolCall, CallState]]) -> None:
        """Schedule the next check for the first expiry of a lease; earlier if an unclaimed call needs one."""
        leases = [state.lease_left for _, state in open_calls if state.claimed]
        if not leases:
            return
        if len(leases) < len(open_calls):
            self.engine.tasks.schedule.schedule_no_later_than(self.task_id, min(leases) + EXPIRY_MARGIN)
        else:
            schedule_check_after_lease(self.engine.tasks, self.task_id, min(leases))

    def _is_shop_task(self, call: ToolCall) -> bool:
        return self.team.task_tool(call.tool_name) is not None

    def _check_shop_tasks(self, open_calls: list[tuple[ToolCall, CallState]], by_sweeper: bool) -> None:
        """Send Celery tasks of other applications, end the calls whose time is up, and schedule the next check."""
        tasks = [pair for pair in open_calls if self._is_shop_task(pair[0])]
        delays = [
            check_shop_task(self.engine, self.team, self.task, (self._assignment(call), call, state), by_sweeper)
            for call, state in tasks
            if not state.claimed or state.lease_left > 0
        ]
        if delays:
            schedule = self.engine.tasks.schedule
            alone = len(delays) == len(open_calls)
            (schedule.set if alone else schedule.schedule_no_later_than)(self.task_id, min(delays) + EXPIRY_MARGIN)

    def _open_calls(self) -> list[tuple[ToolCall, CallState]]:
        step, calls = self.task.steps.tail[-1], self.task.calls
        outcomes = {call_id: state.outcome for call_id, state in calls.items() if state.outcome is not None}
        done = {**local_answers(self.team, self.task.state, step), **outcomes}
        external, approvals = external_results(step, self.inbox, outcomes), approval_decisions(step, self.inbox)
        return [
            (call, calls.get(call.id, CallState()))
            for call in step.calls
            if call.id not in done and call.id not in external and not waits_for_client(self.team, call)
            if call.id in approvals or not needs_approval(self.team, call)
        ]

    def _assignment(self, call: ToolCall) -> ToolAssignment:
        return self.task.call_order(self.task_id, call.id)


def restart_call(
    engine: Engine, team: Team, assignment: ToolAssignment, call: ToolCall, worker_lost: bool = False
) -> None:
    """Void the attempt and dispatch the next one. After the last one, record that the call was lost too often.

    With `worker_lost`, the pool has reported the worker's death, and the lease does not have to expire first.
    """
    begun = has_intent(engine.workspace, assignment.task_id, call.id)
    if assignment.attempt >= engine.policy.max_attempts + begun:
        if not worker_lost:  # otherwise the pool has reported how the attempt ended
            engine.services.dispatcher.report_attempt_end(assignment, call.tool_name, AttemptStatus.LOST)
        close_call(engine, assignment, call, _lost_too_often(engine, team, assignment, call, begun))
        return
    attempt = engine.tasks.leases.restart_call(assignment, worker_lost)
    if attempt is not None:
        engine.services.telemetry.record(ATTEMPT_RESTARTS, 1, "tool")
        if not worker_lost:
            engine.services.telemetry.record(LEASE_EXPIRATIONS, 1, "tool")
        if team.task_tool(call.tool_name) is None:
            dispatch_call(engine.services, team, replace(assignment, attempt=attempt), call)
        else:
            engine.services.dispatcher.advance(assignment.task_id)


def _lost_too_often(engine: Engine, team: Team, assignment: ToolAssignment, call: ToolCall, begun: bool) -> ToolOutcome:
    if begun and (stored := stored_outcome(engine.workspace, assignment.task_id, call.id)) is not None:
        return stored
    why = f"tool {call.tool_name!r} was lost {assignment.attempt} times, with the worker that ran it"
    detail = f"{call.tool_name}, call {call.id}"
    store_dead_letter(engine, "tool", assignment.task_id, detail, why, assignment.attempt)
    _log.warning("task %s: %s; the call is not tried again, and a dead letter is stored", assignment.task_id, why)
    return ended_outcome(team.tool(call.tool_name) if begun else None, call.id, why)
