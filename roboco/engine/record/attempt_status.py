"""attempt_status: report the end of attempts whose workers cannot report it, for displays such as Flower.

A killed worker reports nothing. The worker that finds the attempt's step stored, or its turn or call superseded,
reports the end of the attempt instead.
"""

from roboco.domain.decision.decide import ATTEMPTS
from roboco.domain.history.step import TaskStep
from roboco.engine.engine import Engine
from roboco.ports import AttemptEnd, CallOrder, Phase, Snapshot, TurnOrder


def show_ends(engine: Engine, task_id: str, task: Snapshot, step: TaskStep) -> None:
    """Report the ends of the pending attempts, after the step at their position was stored. A repetition is harmless.

    A worker that has just made the step does not call this: it reports its own attempt.
    """
    match task.phase:
        case Phase.TURN:
            _end_turn(engine, task_id, task, step)
        case Phase.TOOLS:
            _end_calls(engine, task_id, task, step)
        case _:
            return


def _end_turn(engine: Engine, task_id: str, task: Snapshot, step: TaskStep) -> None:
    if step.by_agent:
        attempt = int(step.metadata.get("attempt", task.attempt))
        end = AttemptEnd.DONE if step.error is None else AttemptEnd.FAILED
        engine.dispatcher.ended(TurnOrder(task_id, task.seq, task.epoch, attempt), task.agent, end)
    elif task.claimed or task.due_in is not None:  # an unclaimed turn is refused when its message arrives
        order = TurnOrder(task_id, task.seq, task.epoch, task.attempt)
        engine.dispatcher.ended(order, task.agent, _without_result(step, task.claimed and task.lease_left <= 0))


def _end_calls(engine: Engine, task_id: str, task: Snapshot, step: TaskStep) -> None:
    for call in task.tail[-1].calls:
        state = task.calls.get(call.id)
        if state is not None and state.claimed and state.outcome is None:
            order = CallOrder(task_id, task.seq - 1, task.epoch, call.id, state.attempt)
            engine.dispatcher.ended(order, call.tool_name, _without_result(step, state.lease_left <= 0))


def _without_result(step: TaskStep, lost: bool) -> AttemptEnd:
    """Return LOST if the worker was lost and the step reports the last attempt, else PASSED_OVER."""
    given_up = step.error is not None and step.error.code == ATTEMPTS
    return AttemptEnd.LOST if given_up and lost else AttemptEnd.PASSED_OVER
