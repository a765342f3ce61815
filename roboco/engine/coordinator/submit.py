"""submit: accept a task and start its first turn.

    accept_task ══ accepted ══► Redis ─► decide ─► record ─► dispatch the first turn      (no coordinator needed)
                                              └─► wake-up message ─► coordinator          (any other next step)

The client that submits a task decides its first step itself. That saves a message and a pass of the coordinator. If the
client dies after the acceptance, the sweeper starts the task.
"""

from roboco.domain.history.start_time import ETA
from roboco.domain.history.state import COORDINATOR_TAIL_LENGTH
from roboco.domain.ids import check_task_id
from roboco.domain.inbox.submission import Submission
from roboco.domain.team.team import Team
from roboco.engine.coordinator.next_step import NextStep
from roboco.engine.engine import Engine
from roboco.engine.intake.accept_task import AcceptedTask, accept_task, index_accepted, load_into_redis
from roboco.engine.intake.fallback import falling_back_to_sweeper
from roboco.ports.task_store import Phase
from roboco.ports.telemetry import Operation


def submit(engine: Engine, submission: Submission, team: Team) -> None:
    """Accept the task and dispatch its first turn, or wake a coordinator if the next step is not a turn.

    When this returns, the task will end or wait, whatever fails. A repetition of the submission changes nothing. Raise
    UsageError if the submission is wrong, or if the task id has other content already. Raise Overloaded if too many
    turns are queued, and TransientError if a server fails before the acceptance: the client sends the submission again.
    """
    with engine.telemetry.operation(Operation("submit", check_task_id(submission.task_id))):
        accepted = accept_task(engine, submission, team)
        if accepted is None:
            return
        with falling_back_to_sweeper(accepted.task_id):
            is_new = load_into_redis(engine, accepted)
            if is_new and _start_first_turn(engine, accepted):
                return
            engine.dispatcher.advance(accepted.task_id)
        index_accepted(engine, accepted)


def _start_first_turn(engine: Engine, accepted: AcceptedTask) -> bool:
    """Dispatch the first turn. Return False if a coordinator has to decide.

    It has to if an item has arrived, if the task starts later, or if its team has a custom router.
    """
    task = engine.task_store.load(accepted.task_id, COORDINATOR_TAIL_LENGTH)
    if (
        task is None
        or task.phase is not Phase.UNDECIDED
        or task.seq != task.state.imported + 1
        or task.item_ids
        or ETA in task.first.metadata
    ):
        return False
    next_step = NextStep(engine, accepted.task_id, accepted.team, task)
    action = next_step.decide_locally()
    return action is not None and next_step.record_and_dispatch(action) is not None
