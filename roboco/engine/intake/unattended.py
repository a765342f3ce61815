"""unattended: find out that an open task waits for a pool without a live worker."""

from collections.abc import Mapping

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.decision.tool_answers import needs_resolution
from roboco.domain.inbox.item import Pause
from roboco.engine.engine import Engine
from roboco.engine.intake.accept_item import CALL_ITEMS, stored_item
from roboco.engine.registration import check_workspace, is_silent
from roboco.errors import UsageError
from roboco.ports.registry import COORDINATOR, POOLS
from roboco.ports.task_store import CallState, Phase, Snapshot

MAX_ITEMS_READ = 100
"""The most items of a waiting task's inbox that are read."""


def why_unattended(engine: Engine, address: str, task_id: str) -> str:
    """Return why no worker attends to the open task, with a remedy, or "" if one does or none has to.

    `address` is that of this process's workspace. Cost: one read of the task, and for a waiting task at
    most 100 reads of the workspace. For all tasks of the process together: five Redis commands every five seconds.
    """
    try:
        check_workspace(engine, address)
    except UsageError as error:
        return str(error)
    pool = awaited_pool(engine, task_id, engine.task_store.load(task_id, 1))
    return missing_worker_message(engine, pool) if pool else ""


def missing_worker_message(engine: Engine, pool: str) -> str:
    """Return a message that no worker of the pool lives, with a remedy, or "" if one does."""
    silence = engine.worker_status.registry_snapshot(engine).silence
    return _missing_message(pool, silence) if is_silent(silence[pool]) else ""


def missing_worker_messages(engine: Engine) -> list[str]:
    """Return a message for each pool without a live worker."""
    silence = engine.worker_status.registry_snapshot(engine).silence
    return list(dict.fromkeys(_missing_message(pool, silence) for pool in POOLS if is_silent(silence[pool])))


def _missing_message(pool: str, silence: Mapping[str, float | None]) -> str:
    """Return the message that no worker of the pool lives, or that no worker lives at all."""
    all_silent = all(map(is_silent, silence.values()))
    known = [seconds for seconds in silence.values() if seconds is not None] if all_silent else [silence[pool]]
    seconds = min((one for one in known if one is not None), default=None)
    kind = "worker" if all_silent else f"{pool} worker"
    since = f"no {kind} is registered" if seconds is None else f"no {kind} for {seconds:.0f} s"
    if all_silent:
        return f"{since}; start one for all pools: celery -A roboco.workers.app worker"
    return f"{since}; start one: celery -A roboco.workers.{pool} worker"


def awaited_pool(engine: Engine, task_id: str, task: Snapshot | None) -> str:
    """Return the pool that has to act next, or "" if a worker acts already, or a person or client has to."""
    if task is None or task.phase in (Phase.UNDECIDED, Phase.END):
        return COORDINATOR
    match task.phase:
        case Phase.TURN if task.claimed:
            return COORDINATOR if task.lease_left <= 0 else ""
        case Phase.TURN:
            return COORDINATOR if task.deferred_for is not None or task.cancel_requested_for is not None else "agents"
        case Phase.TOOLS:
            return _pool_awaited_by_calls(task)
        case _:
            return COORDINATOR if _has_items_to_apply(engine, task_id, task) else ""


def _has_items_to_apply(engine: Engine, task_id: str, task: Snapshot) -> bool:
    """Return True if a coordinator has to apply an item of the inbox of a task that waits.

    A pause stays in the inbox while it counts. Answers and approvals stay until each open call of the step has one.
    """
    items = [
        item
        for item_id in task.item_ids[:MAX_ITEMS_READ]
        if (item := stored_item(engine, task_id, item_id)) is not None
    ]
    judged = {item.call_id for item in items if isinstance(item, CALL_ITEMS)}
    open_calls = {call.id for call in task.tail[-1].calls if _is_call_open(task.calls.get(call.id))}
    if open_calls and open_calls <= judged:
        return True
    return any(not isinstance(item, (Pause, *CALL_ITEMS)) for item in items)


def _is_call_open(state: CallState | None) -> bool:
    """Return True if the call has no outcome yet, or one of which a person must judge."""
    return state is None or state.outcome is None or needs_resolution(state.outcome)


def _pool_awaited_by_calls(task: Snapshot) -> str:
    states = [task.calls.get(call.id, CallState()) for call in task.tail[-1].calls if call.tool_name != DELEGATE]
    still_open = [state for state in states if state.outcome is None]
    if any(state.claimed and state.lease_left > 0 for state in still_open):
        return ""
    if any(not state.claimed for state in still_open) and task.cancel_requested_for is None:
        return "tools"
    has_sub_task = any(call.tool_name == DELEGATE and call.id not in task.calls for call in task.tail[-1].calls)
    return "" if has_sub_task else COORDINATOR
