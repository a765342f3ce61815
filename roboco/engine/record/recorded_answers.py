"""recorded_answers: answer the calls of a run of `what-if` from the record of its source.

    call ─► record: equal call, same number ─► its outcome
               │       └─► none ─► built-in, or pure and without approval ─► the call runs
               │                    └─► any other ─► an error that says that it was not run
               └── unreadable: an error with this cause, at the first attempt

The rule is in the frozen team, and the record in a file that was stored before the task was accepted. So every attempt
on every worker answers the same, also after a crash, a repeated message or a loss of Redis.
"""

from roboco.domain.decision.what_if import REFUSED, refusal_reason, takes_recorded_result
from roboco.domain.history.part import ToolCall, ToolOutcome, failed_outcome
from roboco.domain.history.recorded_calls import RecordedCalls, places_of_calls
from roboco.domain.team.team import Team
from roboco.engine.engine import WorkspaceRecords
from roboco.errors import CorruptHistory
from roboco.ports.snapshot import Snapshot


def recorded_answer(
    workspace: WorkspaceRecords, team: Team, task_id: str, task: Snapshot, call: ToolCall
) -> ToolOutcome | None:
    """Return the outcome of a call of the last step that does not run, or None if it runs, as in any other task.

    Cost: of a run, one read of the record for each process. If the record has an equal call, and for the turn of a
    function, the steps of the run are read unless the task's tail holds them; the limits of the run bound their number.
    """
    rule, step = team.what_if, task.steps.tail[-1]
    if rule is None:
        return None
    if takes_recorded_result(team, step, call):
        try:
            record = workspace.frozen_teams.recorded_calls_of(task_id)
        except CorruptHistory as error:
            return _not_run(call, f"{REFUSED}{rule.source!r} has no readable record for it: {error}")
        outcome = _recorded_outcome(workspace, record, rule.seq + 1, task_id, task, call)
        if outcome is not None:
            return outcome
    reason = refusal_reason(team, step, call)
    return None if reason is None else _not_run(call, reason)


def _recorded_outcome(
    workspace: WorkspaceRecords, record: RecordedCalls, first: int, task_id: str, task: Snapshot, call: ToolCall
) -> ToolOutcome | None:
    """Return the recorded outcome of the call, or None. `first` is the first step of the run itself."""
    step = task.steps.tail[-1]
    if not (record.outcomes if step.begins_function else record.has(call)):
        return None
    steps = task.steps.tail if task.steps.tail[0].seq <= first else workspace.histories.read(task_id, first)
    places = places_of_calls(one for one in steps if first <= one.seq <= step.seq)
    return record.outcome(call, *places[step.seq, call.id])


def _not_run(call: ToolCall, reason: str) -> ToolOutcome:
    return failed_outcome(call.id, reason).model_copy(update={"not_run": True})
