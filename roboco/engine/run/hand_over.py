"""hand_over: this process ends a turn or call that it runs, and another worker continues with it at once.

    turn:  no text emitted ─► released: the same attempt starts again, and nothing was lost
           text emitted ────► restarted: event_turn_restart voids the text, and the next attempt starts
           reply complete ──► committed by its own thread, unless the workspace takes no writes: restarted
    call:  released: the same attempt starts again. Only a call that may run twice is handed over.

None of them counts as a failed attempt.
"""

from roboco.domain.history.part import ToolCall
from roboco.domain.team.team import Team
from roboco.engine.coordinate.next_step import dispatch_call
from roboco.engine.coordinate.pending_turn import restart_turn
from roboco.engine.engine import Engine
from roboco.engine.record import recover
from roboco.engine.run.claimed_turn import ClaimedTurn
from roboco.ports.assignment import ToolAssignment


def hand_over_turn(turn: ClaimedTurn, reason: str) -> None:
    """Let another agents worker run the turn. Do nothing if this claim does not hold it any more."""
    engine, claim = turn.engine, turn.claim
    task_id = claim.assignment.task_id
    now = engine.tasks.task_store.load(task_id, 1)
    if now is None or now.position.epoch != claim.assignment.epoch or not now.attempt.claimed:
        return
    if recover.catch_up(engine, task_id, now):  # the step was stored before
        engine.services.dispatcher.advance(task_id)
    elif engine.tasks.leases.release_turn(claim):
        engine.tasks.schedule.set(task_id, engine.policy.redelivery_delay)
        engine.services.dispatcher.turn(claim.assignment, claim.snapshot.position.agent)
    else:
        restart_turn(engine, task_id, claim.snapshot, reason, claim.token, handed_over=True)


def hand_over_call(engine: Engine, team: Team, order: ToolAssignment, token: str, call: ToolCall) -> None:
    """Let another tools worker run the call. Do nothing if it has an outcome, or its lease is lost."""
    if engine.tasks.leases.release_call(order, token):
        engine.tasks.schedule.schedule_no_later_than(order.task_id, engine.policy.redelivery_delay)
        dispatch_call(engine.services, team, order, call)
