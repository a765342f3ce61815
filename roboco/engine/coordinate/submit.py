"""submit: accept a task and start its first turn.

    accept_task ══ accepted ══► decide ─► Redis: create and record ─► dispatch the first turn   (no coordinator needed)
                                  └─► Redis: create ─► wake-up message ─► coordinator           (any other next step)

The client that submits a task decides its first step itself. That saves a message and a pass of the coordinator. If the
client dies after the acceptance, the sweeper starts the task.
"""

from roboco.domain.decision.action import StartTurn
from roboco.domain.history.state import fold
from roboco.domain.history.step import ETA
from roboco.domain.ids import check_task_id
from roboco.domain.inbox.submission import Submission
from roboco.domain.team.team import Team
from roboco.engine.accept.accept_task import (
    AcceptedTask,
    accept_task,
    check_not_erased_again,
    index_accepted,
    load_into_redis,
    prepare_load,
)
from roboco.engine.accept.checks import falling_back_to_sweeper
from roboco.engine.coordinate.next_step import NextStep
from roboco.engine.engine import Engine
from roboco.ports.task_store import Snapshot
from roboco.ports.telemetry import Operation


def submit(engine: Engine, submission: Submission, team: Team) -> bool:
    """Accept the task and dispatch its first turn, or wake a coordinator if the next step is not a turn.

    When this returns, the task will end or wait, whatever fails. A repetition of the submission changes nothing.
    Return True if this call has stored the first step: of several at the same time, one has.
    Raise UsageError if the submission is wrong, or if the task id has other content already. Raise Overloaded if too
    many turns are queued, and TransientError if a server fails before the acceptance: the client sends the submission
    again.
    """
    with engine.services.telemetry.operation(Operation("submit", check_task_id(submission.task_id))):
        accepted = accept_task(engine, submission, team)
        if accepted is None:
            return False
        with falling_back_to_sweeper(accepted.task_id):
            if _load_and_start(engine, accepted):
                return not accepted.is_known
            engine.services.dispatcher.advance(accepted.task_id)
        index_accepted(engine.tasks, accepted)
        return not accepted.is_known


def _load_and_start(engine: Engine, accepted: AcceptedTask) -> bool:
    """Load the task into Redis, and dispatch its first turn. Return False if a coordinator has to decide.

    It has to if an item has arrived, if the task starts later, if its team has a custom router, or if Redis has the
    task already.
    """
    task_id, steps = accepted.task_id, accepted.steps
    next_step = NextStep(engine, task_id, accepted.team, Snapshot.new(steps, fold(steps)))
    action = None if ETA in steps[0].metadata else next_step.decide_locally()
    if not isinstance(action, StartTurn):
        load_into_redis(engine, accepted)
        return False
    events = prepare_load(engine, accepted)
    if events is None:
        return False
    if next_step.create_and_dispatch(action, steps, events):
        return True
    check_not_erased_again(engine, task_id)
    return False
