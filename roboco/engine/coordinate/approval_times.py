"""approval_times: remind persons of calls that wait for their approval, and decide in their place when time is over.

    step with the call ─► reminder, reminder, ... ─► expiry: item verdict-CALL (create)
                          (the wait is recorded          └── a person's verdict is stored: that one counts
                          again: event, notification)

If other calls run, the wait is announced beside them, and reminders begin once they have ended. An expiry that ends the
task interrupts them. The times follow from the history, and the schedule wakes the task at the next one. A sweeper that
finds the task later makes up for all that is due: one reminder, and the expiry. An expiry is an item of the name that a
person's decision on the call has, so one of both is stored, and the other is refused. So a worker may die at any line,
and a pass of another one repeats it.
"""

from dataclasses import replace

from roboco.domain.decision.approvals import REMINDER, approval_wait, due_times, expiry_of
from roboco.domain.decision.tool_answers import needs_approval
from roboco.domain.duration import duration_text
from roboco.domain.ids import approval_id
from roboco.domain.inbox.item import ApprovalDecision
from roboco.domain.team.team import Team
from roboco.engine import notifications as notify
from roboco.engine.accept.accept_item import accept_item, stored_item
from roboco.engine.accept.sub_tasks import unapproved
from roboco.engine.coordinate.running_entry import index_as, index_parents
from roboco.engine.engine import Engine
from roboco.engine.record import recover
from roboco.errors import AlreadyEnded, StateConflict
from roboco.ports.snapshot import Snapshot

MIN_DELAY = 1.0
"""Seconds until a pass over a task of which something is due already, and was not done."""


def expire_approvals(engine: Engine, task_id: str, team: Team, task: Snapshot) -> bool:
    """Decide the calls for which no person has decided in time. Return True if the task has changed.

    If Redis has lost the step that applied a decision, apply that step again.
    """
    step, accepted = task.steps.tail[-1], False
    for call in unapproved(team, task):
        found = expiry_of(team, step, call)
        if found is None or found[0] > engine.now():
            continue
        stored = stored_item(engine.workspace, task_id, approval_id(call.id))
        if stored is not None and stored.applied_at_seq is not None:
            return recover.catch_up(engine, task_id, task)
        wait = duration_text((found[0] - step.created_at).total_seconds())
        decision = ApprovalDecision(
            item_id=approval_id(call.id),
            created_at=engine.now(),
            call_id=call.id,
            at_seq=step.seq,
            approved=False,
            reason=f"no person decided on {call.tool_name} within {wait}",
            expired=found[1],
        )
        try:
            accept_item(engine, task_id, decision)
        except (AlreadyEnded, StateConflict):  # a person's decision is stored: it is announced again, and counts
            continue
        accepted = True
    return accepted


def announce(engine: Engine, task_id: str, team: Team, task: Snapshot) -> None:
    """Notify of the calls that wait for a person while others run, and schedule the next expiry. Safe to repeat."""
    if any(needs_approval(team, call) for call in task.steps.tail[-1].calls):
        index_as(engine, task_id, task, task.position.status, task.position.epoch)
        index_parents(engine, task_id, task)
    if asked := unapproved(team, task):
        wait = approval_wait(team, task.steps.tail[-1], asked)
        position = replace(task.position, status=wait.status, reason=wait.route.reason)
        notify.enqueue(engine, task_id, replace(task, position=position))
        if (left := seconds_left(engine, team, task)) is not None:
            engine.tasks.schedule.schedule_no_later_than(task_id, left)


def reminded(engine: Engine, team: Team, task: Snapshot, reason: str) -> str:
    """Return the reason of a wait with the number of the reminders that are due."""
    count, _ = due_times(team, unapproved(team, task), _age(engine, task))
    return f"{reason}{REMINDER}{count}" if count else reason


def is_reminder_due(engine: Engine, team: Team, task: Snapshot) -> bool:
    """Return True if the reason of the waiting task, in whose inbox no item is, lacks a reminder."""
    return reminded(engine, team, task, task.position.reason.partition(REMINDER)[0]) != task.position.reason


def seconds_left(engine: Engine, team: Team, task: Snapshot) -> float | None:
    """Return the seconds until the next reminder or expiry, or None if there is none."""
    age = _age(engine, task)
    _, due = due_times(team, unapproved(team, task), age)
    return None if due is None else max(MIN_DELAY, due - age)


def _age(engine: Engine, task: Snapshot) -> float:
    return engine.clock.now() - task.steps.tail[-1].created_at.timestamp()
