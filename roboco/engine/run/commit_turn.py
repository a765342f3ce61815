"""commit_turn: store the step of a turn, commit it, and start what follows."""

import math

from roboco.domain.decision.answer_checks import held_back
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import step_id_at
from roboco.domain.url import strip_credentials
from roboco.engine.coordinate.next_step import NextStep
from roboco.engine.record import recover
from roboco.engine.record.event_archive import is_log_full
from roboco.engine.retry import retry
from roboco.engine.run.attempt_outcome import TurnOutcome
from roboco.engine.run.claimed_turn import ClaimedTurn
from roboco.engine.run.remote_turn import settle
from roboco.engine.run.reply import StepContent
from roboco.engine.run.turn_result import TurnResult, task_failure
from roboco.engine.usage import record_turn_metrics, unfinished_usage_metadata
from roboco.errors import TransientError
from roboco.ports.task_store import Commit


def commit_turn(
    turn: ClaimedTurn, content: StepContent, metadata: dict[str, object], agent_name: str | None = None
) -> TurnResult:
    """Append the step to the history, and commit it. If another step has the position, apply that one instead.

    The step is by the turn's agent, unless it has another `agent_name`. While the workspace does not answer, keep the
    step and append it again, for as long as this worker has the turn: the model is paid for it once. Raise
    TransientError if the turn is lost meanwhile, or if Redis does not answer: the step may be stored.
    """
    engine, claim = turn.engine, turn.claim
    order, task = claim.assignment, claim.snapshot
    routing: dict[str, object] = (
        {"attempt": order.attempt, "routing": task.position.routing} if agent_name is None else {}
    )
    remote = retry(
        lambda: settle(engine, turn.team, order.task_id, task.position, next(reversed(turn.messages), None)),
        lambda: bool(engine.tasks.leases.renew_turn(claim)),
        f"the remote task of step {order.seq} of task {order.task_id}",
        engine.clock,
        math.inf,
    )
    parts, about = content.parts, metadata | content.metadata() | remote
    if agent_name is None and turn.team.holds_text:
        parts, about = held_back(turn.team, task.position.agent, (order.task_id, order.seq), parts, about)
    step = TaskStep(
        step_id=step_id_at(order.task_id, order.seq),
        seq=order.seq,
        agent_name=agent_name or task.position.agent,
        parts=parts,
        created_at=engine.now(),
        metadata=routing | about | unfinished_usage_metadata(turn.team, task),
    ).sealed(task.state.last_digest)

    def append() -> TaskStep:
        try:
            return engine.workspace.histories.append(order.task_id, step)
        except TransientError as error:
            turn.progress.kept = strip_credentials(str(error))[:500]
            raise

    stored = retry(
        append,
        lambda: bool(engine.tasks.leases.renew_turn(claim)),
        f"step {step.seq} of task {order.task_id}",
        engine.clock,
        math.inf,
    )
    turn.progress.kept = ""
    record_turn_metrics(engine.services, turn.span, turn.model, step, engine.clock.now() - turn.claimed_at)
    if stored.digest != step.digest:
        recover.catch_up(engine, order.task_id, task)
        engine.services.dispatcher.advance(order.task_id)
        return TurnOutcome.REPLACED
    commit = Commit(step, task.state.after(step), recover.step_events(engine, order.task_id, step, task.steps.tail[-1]))
    continued = NextStep(engine, order.task_id, turn.team, task).commit_and_continue(commit)
    if not continued or is_log_full(engine, task):
        engine.services.dispatcher.advance(order.task_id)
    engine.day_budgets.count_for_caller(order.task_id, task.steps.first, commit.state)
    return task_failure(turn.team, task, order.task_id, step, commit.state) or TurnOutcome.COMMITTED
