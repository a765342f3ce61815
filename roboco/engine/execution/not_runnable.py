"""not_runnable: a worker lacks the function of a tool.

    worker A lacks it ─► released ─► dispatched again, after 1, 2, 4, ... 10 s ─► worker B, which has the module
                            │
                            └─ each live worker that has the module lacks the function too, or none has it:
                               paused after TRIES dispatches ─► the user resumes the task

The task store keeps the workers that have declined a turn or call. If the worker dies in between, the sweeper
dispatches the turn or call again, and the next worker does the same. A worker that restarts, or is of a release that
does not register, has the time of these dispatches to claim it.
"""

import logging

from roboco.domain.history.part import ToolCall
from roboco.domain.inbox.item import Hold
from roboco.engine.engine import Engine
from roboco.engine.execution.claimed_turn import Making, TurnEnd
from roboco.engine.execution.deferral import defer
from roboco.engine.intake.accept import receive, stored
from roboco.errors import NotRunnable, TransientError, UsageError
from roboco.ports import CallOrder, Declined

_log = logging.getLogger(__name__)

TRIES = 5
"""Times that workers decline a turn or call before its task is paused."""
LONGEST_DELAY = 10.0
"""The most seconds until a turn or call is dispatched to another worker."""


def release_call(engine: Engine, order: CallOrder, token: str, call: ToolCall, error: NotRunnable) -> None:
    """Leave the call to another tools worker. If none can run it, pause the task with the reason."""
    own = _own(engine)
    engine.calls.give_back(order, token, declined_by=own)
    task = engine.board.load(order.task_id, 1)
    if task is None or task.epoch != order.epoch or call.id not in task.calls:
        return
    declined = task.calls[call.id].declined
    cause = f"tools worker {own!r} cannot run tool {call.tool_name!r}: {error}"
    if none := _none_left(engine, "tools", error.module, declined):
        _hold(engine, order.task_id, f"not-runnable-{order.epoch}-{call.id}", cause + none, task.seq, call.id)
        return
    engine.schedule.schedule_no_later_than(order.task_id, _delay(declined))
    level = logging.WARNING if declined.count <= len(declined.workers) else logging.DEBUG
    _log.log(level, "call %s of task %s is released for another worker: %s", call.id, order.task_id, cause)


def put_off_turn(making: Making, error: NotRunnable) -> TurnEnd:
    """Leave the turn to another agents worker. If none can describe its tools, pause the task with the reason."""
    engine, claim = making.engine, making.claim
    agent, order, own = claim.task.agent, claim.order, _own(engine)
    before = claim.task.declined
    declined = Declined(before.count + 1, (*before.workers, own))
    cause = f"agents worker {own!r} cannot describe the tools of agent {agent!r}: {error}"
    none = _none_left(engine, "agents", error.module, declined)
    reason = cause + (none or "; the turn waits for another agents worker")
    seconds = LONGEST_DELAY if none else _delay(declined)
    end = defer(making, seconds, reason, TurnEnd.DEFERRED, declined_by=own)
    if none and end is TurnEnd.DEFERRED:
        _hold(engine, order.task_id, f"not-runnable-{order.epoch}", reason, order.seq)
    return end


def _own(engine: Engine) -> str:
    return engine.workers.own or "without a name"


def _delay(declined: Declined) -> float:
    return min(LONGEST_DELAY, 2.0 ** min(10, declined.count - 1))


def _none_left(engine: Engine, pool: str, module: str, declined: Declined) -> str | None:
    """Return why no other worker of the pool can run the work, with a remedy, or None if one may.

    A worker may run it if it has the module and has not declined. The first TRIES dispatches wait for workers that
    restart.
    """
    if declined.count < TRIES:
        return None
    try:
        live = engine.workers.modules(pool)
    except TransientError as error:
        found = f"; which other {pool} workers have the module is not known: {error}"
    else:
        if any(module in has and name not in declined.workers for name, has in live.items()):
            return None
        found = f"; no other {pool} worker has the module"
    others = ", ".join(sorted(set(declined.workers) - {_own(engine)}))
    cannot = f"; nor can {others}" if others else ""
    return (
        f"{cannot}{found}. Install module {module!r} where the {pool} workers run, name it in their "
        "ROBOCO_TOOL_MODULES, restart them, and resume the task; or stop the task if its team names the wrong function"
    )


def _hold(engine: Engine, task_id: str, item_id: str, reason: str, seq: int, call_id: str = "") -> None:
    """Pause the task before the step. If the user or a step has ended an earlier pause of it, create another one."""
    for number in range(1, 1000):
        before = stored(engine, task_id, f"{item_id}-{number}")
        if before is None or before.taken_at_seq is None:
            break
    item = before or Hold(
        item_id=f"{item_id}-{number}", created_at=engine.now(), reason=reason[:2000], at=seq, call_id=call_id
    )
    try:
        receive(engine, task_id, item, limited=False)
    except UsageError as error:  # the task has ended, or another worker has paused it with another reason
        _log.info("task %s is not paused: %s", task_id, error)
        return
    if before is None:
        _log.warning("task %s is paused: %s", task_id, reason)
