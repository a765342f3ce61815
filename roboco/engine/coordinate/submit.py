"""submit: accept a task and start its first turn.

    submission ══ accepted ══► decide ─► Redis: create and record ─► dispatch the first turn   (no coordinator needed)
                                 └─► Redis: create ─► wake-up message ─► coordinator           (any other next step)

The client that submits a task decides its first step itself. That saves a message and a pass of the coordinator. If the
client dies after the acceptance, the sweeper starts the task.
"""

from roboco.domain.decision.action import StartTurn
from roboco.domain.history.state import fold
from roboco.domain.history.step import ETA
from roboco.domain.inbox.submission import Submission
from roboco.domain.team.team import Team
from roboco.engine.accept.accept_task import AcceptedTask, accept_and_wake, prepare_load
from roboco.engine.coordinate.next_step import NextStep
from roboco.engine.engine import Engine
from roboco.ports.snapshot import Snapshot


def submit(engine: Engine, submission: Submission, team: Team) -> bool:
    """Accept the task as `accept_and_wake` does, and dispatch its first turn, if the next step is a turn."""
    return accept_and_wake(engine, submission, team, start=_start_turn)


def _start_turn(engine: Engine, accepted: AcceptedTask) -> bool:
    """Load the task into Redis, and dispatch its first turn. Return False if a coordinator has to decide."""
    steps = accepted.steps
    next_step = NextStep(engine, accepted.task_id, accepted.team, Snapshot.new(steps, fold(steps)))
    action = None if ETA in steps[0].metadata else next_step.decide_locally()
    if not isinstance(action, StartTurn):
        return False
    events = prepare_load(engine, accepted)
    return events is not None and next_step.create_and_dispatch(action, steps, events)
