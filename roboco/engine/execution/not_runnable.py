"""not_runnable: a worker lacks the function of a tool.

    worker A lacks it ─┬─► released ─► announced again ─► worker B, which has imported the module
                       └─► no other live worker has it: held ─► paused ─► the user resumes the task

If the worker dies in between, the sweeper announces the turn or call again, and the next worker does the same.
"""

import logging

from roboco.domain.history.part import ToolCall
from roboco.domain.inbox.item import Hold
from roboco.engine.engine import Engine
from roboco.engine.execution.claimed_turn import Making, TurnEnd
from roboco.engine.execution.deferral import defer
from roboco.engine.intake.accept import receive, stored
from roboco.errors import NotRunnable
from roboco.ports import CallOrder

_log = logging.getLogger(__name__)

SOON = 1.0
"""Seconds until a turn or call is announced to another worker."""
TRIES = 10
"""Announcements of a turn or call after which it is held, although another worker has the module."""
_LONGEST = 60.0
"""Seconds for which a turn is deferred that is held at the same time."""


def release_call(engine: Engine, order: CallOrder, token: str, call: ToolCall, error: NotRunnable) -> None:
    """Leave the call to another tools worker. If none can run it, pause the task with the reason."""
    engine.calls.give_back(order, token)
    task = engine.board.load(order.task_id, 1)
    if task is None or task.epoch != order.epoch:
        return
    cause = f"tools worker {engine.workers.own!r} cannot run tool {call.tool_name!r}: {error}"
    others = _others(engine, "tools", error.module)
    if others and task.rings < TRIES:
        _log.warning("call %s of task %s is left to another worker: %s", call.id, order.task_id, cause)
        engine.agenda.hasten(order.task_id, SOON)
        return
    item_id = f"not-runnable-{order.epoch}-{call.id}"
    _hold(engine, order.task_id, item_id, cause + _remedy("tools", error.module, others), task.seq, call.id)


def put_off_turn(making: Making, error: NotRunnable) -> TurnEnd:
    """Leave the turn to another agents worker. If none can describe its tools, pause the task with the reason."""
    engine, claim = making.engine, making.claim
    agent, order = claim.task.agent, claim.order
    cause = f"agents worker {engine.workers.own!r} cannot describe the tools of agent {agent!r}: {error}"
    others = _others(engine, "agents", error.module)
    if others and claim.task.rings < TRIES:
        return defer(making, SOON, f"{cause}; another agents worker takes the turn", TurnEnd.DEFERRED)
    reason = cause + _remedy("agents", error.module, others)
    end = defer(making, _LONGEST, reason, TurnEnd.DEFERRED)
    if end is TurnEnd.DEFERRED:
        _hold(engine, order.task_id, f"not-runnable-{order.epoch}", reason, order.seq)
    return end


def _others(engine: Engine, pool: str, module: str) -> tuple[str, ...]:
    """Return the other live workers that have imported the module.

    If this worker itself is not registered, Redis has lost the registry a moment ago: any worker may have it.
    """
    live = engine.workers.modules(pool)
    if engine.workers.own not in live:
        return ("a worker that has not registered yet",)
    return tuple(sorted(name for name, has in live.items() if module in has and name != engine.workers.own))


def _remedy(pool: str, module: str, others: tuple[str, ...]) -> str:
    has_it = f"{', '.join(others)} did not run it either" if others else f"no other {pool} worker has the module"
    return (
        f"; {has_it}. Install module {module!r} where the {pool} workers run, name it in their ROBOCO_TOOLS, restart "
        "them, and resume the task; or stop the task if its team names the wrong function"
    )


def _hold(engine: Engine, task_id: str, item_id: str, reason: str, seq: int, call_id: str = "") -> None:
    _log.warning("task %s is paused: %s", task_id, reason)
    item = stored(engine, task_id, item_id)
    if item is None:
        item = Hold(item_id=item_id, created_at=engine.now(), reason=reason[:2000], at=seq, call_id=call_id)
    receive(engine, task_id, item, limited=False)
