"""wait_cause: why an open task does not go on, with the remedy, for `why`, `top`, lists, the web view and clients.

    awaited pool ─► Redis and the broker take writes? ─► a worker lives? ─► the cause in the task's state ─► its queue
     │ none: a worker, a person or a client acts

A cause of which the state of the task alone gives evidence, such as its message in a queue, counts only after a time
without progress: before that, the work is under way. If nothing is found, there is no cause: none is guessed.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

from roboco.domain.builtin_tools import DELEGATE
from roboco.engine.accept.at_rest import continues
from roboco.engine.accept.evidence import WaitCause, attempts_of, is_losing, recorded_cause, stated_cause
from roboco.engine.accept.sub_tasks import SUB_TASK, awaited_decision
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.engine.registration import check_workspace, is_silent
from roboco.errors import TransientError, UsageError
from roboco.ports.registry import COORDINATOR, POOLS
from roboco.ports.snapshot import CallState, Phase, Snapshot

SHOP_WAIT: Final = "Celery task "
"""The beginning of the reason of a task that waits for a Celery task of another application."""


def default_threshold(engine: Engine) -> timedelta:
    """Return the time without progress after which a task counts as stuck: longer than a lost worker delays it."""
    return timedelta(seconds=2 * (engine.policy.lease + engine.policy.redelivery_delay))


def current_cause(engine: Engine, address: str, task_id: str) -> WaitCause | None:
    """Return why the open task does not go on, or None. `address` is that of this process's workspace.

    Raise TransientError if Redis does not answer.
    """
    return wait_cause(engine, task_id, engine.tasks.task_store.load(task_id, 1), address=address)


def wait_cause(
    engine: Engine,
    task_id: str,
    task: Snapshot | None,
    address: str = "",
    queue: Callable[[str], str] | None = None,
    patience: timedelta | None = None,
) -> WaitCause | None:
    """Return why the task does not go on, or None if a worker, a person or a client acts, or no cause is known.

    `queue` describes the queue of a pool, by default from the broker. `patience` is the time without progress after
    which the state of the task is evidence; None is `default_threshold`. Cost: for a waiting task at most 100 reads of
    the workspace; one write of nothing to Redis, one to the broker, and a read of the queue if nothing else is found.
    Raise TransientError if Redis does not answer.
    """
    try:
        if address:
            check_workspace(engine, address)
    except UsageError as error:
        return WaitCause("workspace", str(error))
    if task is not None:
        found = recorded_cause(task, engine.clock.now()) or _awaited(engine, task_id, task)
        if found is not None:
            return found
    pool = _awaited_pool(engine.workspace, task_id, task)
    if pool and (broken := _server_fault(engine, task_id, pool)) is not None:
        return broken
    if pool and task is not None and (found := stated_cause(task)) is not None:
        return found
    since = 0.0 if task is None else max(task.position.dispatched_at, task.steps.tail[-1].created_at.timestamp())
    if engine.clock.now() - since < (default_threshold(engine) if patience is None else patience).total_seconds():
        return None
    return _evident_cause(engine, pool, task, queue or engine.services.dispatcher.describe_queue)


def _awaited(engine: Engine, task_id: str, task: Snapshot) -> WaitCause | None:
    """Return what a person or client decides while the task runs, or None."""
    text = awaited_decision(engine, task_id, task)
    return WaitCause("sub_task" if text.startswith(SUB_TASK) else "approval", text) if text else None


def _server_fault(engine: Engine, task_id: str, pool: str) -> WaitCause | None:
    """Return the fault of a server, or that no worker of the pool lives. A full Redis also loses registrations."""
    if refused := engine.tasks.task_store.fault(task_id):
        return WaitCause("redis", refused)
    if refused := engine.worker_status.broker_fault():
        return WaitCause("broker", f"the broker takes no messages: {refused}")
    silence = engine.worker_status.registry_snapshot().silence
    if not is_silent(silence[pool]):
        return None
    missing = _missing_message(pool, silence)
    if evicted := engine.tasks.task_store.eviction():
        return WaitCause("redis", f"{evicted}; {missing}, or its registration was evicted")
    return WaitCause("no_worker", missing)


def _evident_cause(engine: Engine, pool: str, task: Snapshot | None, queue: Callable[[str], str]) -> WaitCause | None:
    """Return the cause of a task that has not progressed for long."""
    if task is None:
        lost = engine.tasks.task_store.eviction() or "Redis does not have the task"
        return WaitCause("no_state", f"{lost}: a coordinator restores it from the workspace in some minutes")
    if is_losing(task):
        return WaitCause("lost_attempts", attempts_of(task))
    return _waiting_in_queue(engine, queue, pool, task) if pool else None


def missing_worker_messages(engine: Engine) -> list[str]:
    """Return a message for each pool without a live worker."""
    silence = engine.worker_status.registry_snapshot().silence
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


def _awaited_pool(workspace: WorkspaceRecords, task_id: str, task: Snapshot | None) -> str:
    """Return the pool that has to act next, or "" if a worker acts already, or a person or client has to."""
    if task is None or task.position.phase in (Phase.UNDECIDED, Phase.END):
        return COORDINATOR
    match task.position.phase:
        case Phase.TURN if task.attempt.claimed:
            return COORDINATOR if task.attempt.lease_left <= 0 else ""
        case Phase.TURN if task.attempt.deferred_for is not None or task.attempt.cancel_requested_for is not None:
            return COORDINATOR
        case Phase.TURN:
            return "agents"
        case Phase.TOOLS:
            return _pool_awaited_by_calls(task)
        case _:
            return COORDINATOR if continues(workspace, task_id, task) else ""


def _pool_awaited_by_calls(task: Snapshot) -> str:
    states = [task.calls.get(call.id, CallState()) for call in task.steps.tail[-1].calls if call.tool_name != DELEGATE]
    still_open = [state for state in states if state.outcome is None]
    if any(state.claimed and state.lease_left > 0 for state in still_open):
        return ""
    waiting = [state for state in still_open if state.waits and task.position.reason.startswith(SHOP_WAIT)]
    if waiting and len(waiting) == len(still_open):
        return ""
    if any(not state.claimed for state in still_open) and task.attempt.cancel_requested_for is None:
        return "tools"
    has_sub_task = any(call.tool_name == DELEGATE and call.id not in task.calls for call in task.steps.tail[-1].calls)
    return "" if has_sub_task else COORDINATOR


def _waiting_in_queue(engine: Engine, queue: Callable[[str], str], pool: str, task: Snapshot) -> WaitCause:
    since = max(0.0, engine.clock.now() - task.position.dispatched_at)
    again = f"sent again {task.position.redeliveries} times"
    sent = f"its work was sent to {pool} workers {since:.0f} s ago, and {again}"
    try:
        if waiting := queue(pool):
            return WaitCause("queue", waiting)
    except TransientError as error:
        return WaitCause("unknown", f"{sent}; the queues are not known: {error}")
    remedy = "see the logs of coordinators" if pool == COORDINATOR else f"see the logs of {pool} workers"
    return WaitCause("unknown", f"{sent}; {remedy}, and roboco why")
