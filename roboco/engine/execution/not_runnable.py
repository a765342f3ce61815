"""not_runnable: a worker lacks the function of a tool.

    worker A lacks it ─► released ─► announced again, after 1, 2, 4, ... 10 s ─► worker B, which has the module
                            │
                            └─ each live worker that has the module lacks the function too, or none has it:
                               held after TRIES announcements ─► paused ─► the user resumes the task

The board keeps the workers that have declined a turn or call. If the worker dies in between, the sweeper announces the
turn or call again, and the next worker does the same. A worker that restarts, or is too old to register, has the time
of these announcements to take it.
"""

import logging

from roboco.domain.history.part import ToolCall
from roboco.domain.inbox.item import Hold
from roboco.engine.engine import Engine
from roboco.engine.execution.claimed_turn import Making, TurnEnd
from roboco.engine.execution.deferral import defer
from roboco.engine.intake.accept import receive, stored
from roboco.errors import NotRunnable, TransientError, UsageError
from roboco.ports import CallOrder

_log = logging.getLogger(__name__)

TRIES = 5
"""Times that workers decline a turn or call before it is held."""
LONGEST_DELAY = 10.0
"""Seconds until a turn or call is announced to another worker, at most."""
_UNKNOWN = "workers that are not registered"


def release_call(engine: Engine, order: CallOrder, token: str, call: ToolCall, error: NotRunnable) -> None:
    """Leave the call to another tools worker. If none can run it, pause the task with the reason."""
    own = engine.workers.own
    engine.calls.give_back(order, token, declined_by=own)
    task = engine.board.load(order.task_id, 1)
    if task is None or task.epoch != order.epoch or call.id not in task.calls:
        return
    declined = task.calls[call.id].declined
    cause = f"tools worker {own!r} cannot run tool {call.tool_name!r}: {error}"
    if _is_left(engine, "tools", error.module, declined):
        engine.schedule.schedule_no_later_than(order.task_id, _delay(declined))
        level = logging.WARNING if declined.count(own) == 1 else logging.DEBUG
        _log.log(level, "call %s of task %s is left to another worker: %s", call.id, order.task_id, cause)
        return
    item_id = f"not-runnable-{order.epoch}-{call.id}"
    _hold(engine, order.task_id, item_id, cause + _remedy("tools", error.module, declined), task.seq, call.id)


def put_off_turn(making: Making, error: NotRunnable) -> TurnEnd:
    """Leave the turn to another agents worker. If none can describe its tools, pause the task with the reason."""
    engine, claim = making.engine, making.claim
    agent, order, own = claim.task.agent, claim.order, engine.workers.own
    declined = (*claim.task.declined, own)
    cause = f"agents worker {own!r} cannot describe the tools of agent {agent!r}: {error}"
    if _is_left(engine, "agents", error.module, declined):
        reason = f"{cause}; another agents worker is to take the turn"
        return defer(making, _delay(declined), reason, TurnEnd.DEFERRED, declined_by=own)
    reason = cause + _remedy("agents", error.module, declined)
    end = defer(making, LONGEST_DELAY, reason, TurnEnd.DEFERRED, declined_by=own)
    if end is TurnEnd.DEFERRED:
        _hold(engine, order.task_id, f"not-runnable-{order.epoch}", reason, order.seq)
    return end


def _delay(declined: tuple[str, ...]) -> float:
    return float(min(LONGEST_DELAY, 2.0 ** max(0, len(declined) - 1)))


def _is_left(engine: Engine, pool: str, module: str, declined: tuple[str, ...]) -> bool:
    """Return True if another worker may run it: one that has the module and has not declined."""
    if len(declined) < TRIES:
        return True
    try:
        live = engine.workers.modules(pool)
    except TransientError as error:
        _log.warning("which workers have module %r is not known: %s", module, error)
        return False
    return any(module in has and name not in declined for name, has in live.items())


def _remedy(pool: str, module: str, declined: tuple[str, ...]) -> str:
    others = sorted(set(declined) - {declined[-1]}) if declined else []
    cannot = f"; nor can {', '.join(others)}" if others else ""
    return (
        f"{cannot}; no other {pool} worker has the module. Install module {module!r} where the {pool} workers run, "
        "name it in their ROBOCO_TOOLS, restart them, and resume the task; or stop the task if its team names the "
        "wrong function"
    )


def _hold(engine: Engine, task_id: str, item_id: str, reason: str, seq: int, call_id: str = "") -> None:
    """Hold the step. If an earlier hold of it was ended, by the user or by a step, make another one."""
    for number in range(1, 1000):
        before = stored(engine, task_id, f"{item_id}-{number}")
        if before is None or before.taken_at_seq is None:
            break
    item = before or Hold(
        item_id=f"{item_id}-{number}", created_at=engine.now(), reason=reason[:2000], at=seq, call_id=call_id
    )
    try:
        receive(engine, task_id, item, limited=False)
    except UsageError as error:  # the task has ended, or another worker has held it in other words
        _log.info("task %s is not held: %s", task_id, error)
        return
    if before is None:
        _log.warning("task %s is paused: %s", task_id, reason)
