"""recorded_answers: answer the calls of a run of `what-if` from the record of its source.

    call ─► record: equal call, same number ─► its outcome
               └─► none ─► built-in, or pure and without approval ─► the call runs
                            └─► any other ─► an error that says that it was not run

The rule is in the frozen team, and the record in a file that was stored before the task was accepted. So every attempt
on every worker answers the same, also after a crash, a repeated message or a loss of Redis.
"""

from roboco.domain.decision.what_if_calls import refusal_reason, takes_recorded_result
from roboco.domain.history.part import ToolCall
from roboco.domain.history.recorded_calls import count_equal_calls
from roboco.domain.history.tool_outcome import ToolOutcome, failed_outcome
from roboco.domain.team.team import Team
from roboco.engine.engine import Engine
from roboco.ports.task_store import Snapshot


def recorded_answer(engine: Engine, team: Team, task_id: str, task: Snapshot, call: ToolCall) -> ToolOutcome | None:
    """Return the outcome of a call of the last step that does not run, or None if it runs, as in any other task.

    Cost: of a run, one read of the record for each process. If the record has an equal call, the steps of the run are
    read unless the task's tail holds them; the limits of the run bound their number.
    """
    rule, step = team.what_if, task.tail[-1]
    if rule is None:
        return None
    record = engine.frozen_teams.recorded_calls_of(task_id)
    if record.has(call) and takes_recorded_result(team, step, call):
        first = rule.seq + 1
        tail_is_enough = task.tail[0].seq <= first
        steps = task.tail if tail_is_enough else engine.histories.read(task_id, first)
        earlier = (one for one in steps if first <= one.seq < step.seq)
        outcome = record.outcome(call, count_equal_calls(earlier, step.calls, call))
        if outcome is not None:
            return outcome
    reason = refusal_reason(team, step, call)
    return None if reason is None else failed_outcome(call.id, reason).model_copy(update={"not_run": True})
