"""not_runnable: a worker lacks the function of a tool.

    worker A lacks it ─► released ─► dispatched again, after 1, 2, 4, ... 10 s ─► worker B, which has the module
                            │
                            └─ each live worker that has the module lacks the function too, or none has it:
                               paused after MIN_DECLINES dispatches ─► the user resumes the task

The task store keeps the workers that have declined a turn or call. If the worker dies in between, the sweeper
dispatches the turn or call again, and the next worker does the same. A worker that restarts, or is of a release that
does not register, has the time of these dispatches to claim it.
"""

import logging

from roboco.domain.history.part import ToolCall
from roboco.domain.inbox.item import Pause
from roboco.engine.accept.accept_item import accept_item, stored_item
from roboco.engine.engine import Engine, Services
from roboco.engine.run.attempt_outcome import TurnOutcome
from roboco.engine.run.claimed_turn import ClaimedTurn
from roboco.engine.run.deferral import defer
from roboco.errors import NotRunnable, TransientError, UsageError
from roboco.ports.assignment import ToolAssignment
from roboco.ports.task_store import Declined

_log = logging.getLogger(__name__)

MIN_DECLINES = 5
"""Times that workers decline a turn or call before its task is paused."""
MAX_DELAY = 10.0
"""The most seconds until a turn or call is dispatched to another worker."""


def release_call(engine: Engine, order: ToolAssignment, token: str, call: ToolCall, error: NotRunnable) -> None:
    """Leave the call to another tools worker. If none can run it, pause the task with the reason."""
    own_name = _own_name(engine.services)
    engine.tasks.leases.release_call(order, token, declined_by=own_name)
    task = engine.tasks.task_store.load(order.task_id, 1)
    if task is None or task.position.epoch != order.epoch or call.id not in task.calls:
        return
    declined = task.calls[call.id].declined
    cause = f"tools worker {own_name!r} cannot run tool {call.tool_name!r}: {error}"
    if why_none := _why_none_can(engine.services, "tools", error.module, declined):
        _pause(
            engine, order.task_id, f"not-runnable-{order.epoch}-{call.id}", cause + why_none, task.position.seq, call.id
        )
        return
    engine.tasks.schedule.schedule_no_later_than(order.task_id, _dispatch_delay(declined))
    level = logging.WARNING if declined.count <= len(declined.workers) else logging.DEBUG
    _log.log(level, "call %s of task %s is released for another worker: %s", call.id, order.task_id, cause)


def defer_turn(turn: ClaimedTurn, error: NotRunnable) -> TurnOutcome:
    """Leave the turn to another agents worker. If none can describe its tools, pause the task with the reason."""
    engine, claim = turn.engine, turn.claim
    agent, order, own = claim.snapshot.position.agent, claim.assignment, _own_name(engine.services)
    before = claim.snapshot.refusals.declined
    declined = Declined(before.count + 1, (*before.workers, own))
    cause = f"agents worker {own!r} cannot describe the tools of agent {agent!r}: {error}"
    why_none = _why_none_can(engine.services, "agents", error.module, declined)
    reason = cause + (why_none or "; the turn waits for another agents worker")
    seconds = MAX_DELAY if why_none else _dispatch_delay(declined)
    outcome = defer(turn, seconds, reason, TurnOutcome.DEFERRED, declined_by=own)
    if why_none and outcome is TurnOutcome.DEFERRED:
        _pause(engine, order.task_id, f"not-runnable-{order.epoch}", reason, order.seq)
    return outcome


def _own_name(services: Services) -> str:
    return services.workers.node_name or "without a name"


def _dispatch_delay(declined: Declined) -> float:
    return min(MAX_DELAY, 2.0 ** min(10, declined.count - 1))


def _why_none_can(services: Services, pool: str, module: str, declined: Declined) -> str | None:
    """Return why no other worker of the pool can run the work, with a remedy, or None if one may.

    A worker may run it if it has the module and has not declined. The first MIN_DECLINES dispatches wait for workers
    that restart.
    """
    if declined.count < MIN_DECLINES:
        return None
    try:
        live = services.workers.modules(pool)
    except TransientError as error:
        found = f"; which other {pool} workers have the module is not known: {error}"
    else:
        if any(module in has and name not in declined.workers for name, has in live.items()):
            return None
        found = f"; no other {pool} worker has the module"
    others = ", ".join(sorted(set(declined.workers) - {_own_name(services)}))
    cannot = f"; nor can {others}" if others else ""
    return (
        f"{cannot}{found}. Install module {module!r} where the {pool} workers run, name it in their "
        "ROBOCO_TOOL_MODULES, restart them, and resume the task; or stop the task if its team names the wrong function"
    )


def _pause(engine: Engine, task_id: str, item_id: str, reason: str, seq: int, call_id: str = "") -> None:
    """Pause the task before the step. If the user or a step has ended an earlier pause of it, create another one."""
    for number in range(1, 1000):
        before = stored_item(engine.workspace, task_id, f"{item_id}-{number}")
        if before is None or before.applied_at_seq is None:
            break
    item = before or Pause(
        item_id=f"{item_id}-{number}", created_at=engine.now(), reason=reason[:2000], at=seq, call_id=call_id
    )
    try:
        accept_item(engine, task_id, item, enforce_capacity=False)
    except UsageError as error:  # the task has ended, or another worker has paused it with another reason
        _log.info("task %s is not paused: %s", task_id, error)
        return
    if before is None:
        _log.warning("task %s is paused: %s", task_id, reason)
