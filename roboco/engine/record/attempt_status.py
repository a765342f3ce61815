"""attempt_status: report the end of attempts whose workers cannot report it, for displays such as Flower.

A killed worker reports nothing. The worker that finds the attempt's step stored, or its turn or call superseded,
reports the end of the attempt instead.
"""

from roboco.domain.decision.action import ATTEMPTS
from roboco.domain.history.step import TaskStep
from roboco.ports.assignment import ToolAssignment, TurnAssignment
from roboco.ports.dispatcher import AttemptStatus, Dispatcher
from roboco.ports.task_store import Phase, Snapshot


def report_attempts(dispatcher: Dispatcher, task_id: str, task: Snapshot, step: TaskStep) -> None:
    """Report the ends of the pending attempts, after the step at their position was stored. A repetition is harmless.

    A worker that has just made the step does not call this: it reports its own attempt.
    """
    match task.position.phase:
        case Phase.TURN:
            _report_turn(dispatcher, task_id, task, step)
        case Phase.TOOLS:
            _report_calls(dispatcher, task_id, task, step)
        case _:
            return


def _report_turn(dispatcher: Dispatcher, task_id: str, task: Snapshot, step: TaskStep) -> None:
    if step.by_agent:
        attempt = int(step.metadata.get("attempt", task.attempt.number))
        end = AttemptStatus.DONE if step.error is None else AttemptStatus.FAILED
        dispatcher.report_attempt_end(
            TurnAssignment(task_id, task.position.seq, task.position.epoch, attempt), task.position.agent, end
        )
    elif (
        task.attempt.claimed or task.attempt.deferred_for is not None
    ):  # an unclaimed turn is refused when its message arrives
        assignment = TurnAssignment(task_id, task.position.seq, task.position.epoch, task.attempt.number)
        dispatcher.report_attempt_end(
            assignment,
            task.position.agent,
            _status_without_result(step, task.attempt.claimed and task.attempt.lease_left <= 0),
        )


def _report_calls(dispatcher: Dispatcher, task_id: str, task: Snapshot, step: TaskStep) -> None:
    for call in task.steps.tail[-1].calls:
        state = task.calls.get(call.id)
        if state is not None and state.claimed and state.outcome is None:
            assignment = ToolAssignment(task_id, task.position.seq - 1, task.position.epoch, call.id, state.attempt)
            dispatcher.report_attempt_end(
                assignment, call.tool_name, _status_without_result(step, state.lease_left <= 0)
            )


def _status_without_result(step: TaskStep, lost: bool) -> AttemptStatus:
    """Return LOST if the worker was lost and the step reports the last attempt, else SUPERSEDED."""
    given_up = step.error is not None and step.error.code == ATTEMPTS
    return AttemptStatus.LOST if given_up and lost else AttemptStatus.SUPERSEDED
