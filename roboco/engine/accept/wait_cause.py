"""wait_cause: why an open task does not go on, with the remedy, for `why`, `top`, lists, the web view and clients.

    awaited pool ─► Redis and the broker take writes? ─► a worker lives? ─► the cause in the task's state ─► its queue
     │ none: a worker, a person or a client acts

A cause of which the state of the task alone gives evidence, such as its message in a queue, counts only after a time
without progress: before that, the work is under way. If nothing is found, there is no cause: none is guessed.
"""

import shlex
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final, Literal, NamedTuple

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.day_budget import BUDGET_WAIT
from roboco.domain.rate_report import NEXT_ATTEMPT, RATE_WAIT
from roboco.domain.switch import SWITCHED_OFF, check_target
from roboco.engine.accept.at_rest import continues
from roboco.engine.accept.sub_tasks import SUB_TASK, awaited_decision
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.engine.registration import check_workspace, is_silent
from roboco.errors import TransientError, UsageError
from roboco.ports.registry import COORDINATOR, POOLS
from roboco.ports.task_store import CallState, Phase, Snapshot

MIN_SILENCE = 15.0
"""Seconds of silence of a model after which views name it. Workers record it with each renewal of a lease."""


Kind = Literal[
    "redis",
    "broker",
    "workspace",
    "no_worker",
    "no_state",
    "model_silent",
    "provider_outage",
    "rate_limit",
    "budget",
    "switched_off",
    "sub_task",
    "approval",
    "lost_attempts",
    "queue",
    "deferred",
    "unknown",
]


class WaitCause(NamedTuple):
    """Why a task does not go on."""

    kind: Kind
    """The cause, for programs."""
    text: str
    """The cause, with the remedy if there is one."""


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


def why_unattended(engine: Engine, address: str, task_id: str) -> str:
    """Return why the open task does not go on, with a remedy, or "", as `current_cause`."""
    found = current_cause(engine, address, task_id)
    return "" if found is None else found.text


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
        found = _recorded_cause(task, engine.clock.now()) or _awaited(engine, task_id, task)
        if found is not None:
            return found
    pool = awaited_pool(engine.workspace, task_id, task)
    if pool and (broken := _server_fault(engine, task_id, pool)) is not None:
        return broken
    if pool and task is not None and (found := _stated_cause(task)) is not None:
        return found
    since = 0.0 if task is None else max(task.position.dispatched_at, task.steps.tail[-1].created_at.timestamp())
    if engine.clock.now() - since < (default_threshold(engine) if patience is None else patience).total_seconds():
        return None
    return _evident_cause(engine, pool, task, queue or engine.services.dispatcher.describe_queue)


def _awaited(engine: Engine, task_id: str, task: Snapshot) -> WaitCause | None:
    """Return what a person or client decides while the task runs, or None."""
    text = awaited_decision(engine, task_id, task)
    return WaitCause("sub_task" if text.startswith(SUB_TASK) else "approval", text) if text else None


def _recorded_cause(task: Snapshot, now: float) -> WaitCause | None:
    """Return the cause that the worker of a running turn has recorded: a silent model or a kept answer; or None."""
    progress = task.attempt.progress
    if progress is None or task.attempt.lease_left <= 0:
        return None
    if progress.kept:
        text = f"the answer of model {progress.model} waits until the workspace takes it: {progress.kept}"
        return WaitCause("workspace", text)
    silence = now - progress.heard_at
    if silence < MIN_SILENCE:
        return None
    text = f"model {progress.model} has sent nothing for {silence:.0f} s; the limit is {progress.limit:.0f} s"
    if progress.requests > 1:
        text += f"; request {progress.request} of {progress.requests}"
    if progress.reasoning:
        text += f"; before that it sent about {progress.reasoning} tokens of reasoning"
    return WaitCause("model_silent", text)


def current_reason(task: Snapshot, now: float) -> str:
    """Return the reason of the task's status, or the cause that the worker of its turn has recorded, or ""."""
    found = _recorded_cause(task, now)
    return task.position.reason if found is None else found.text


def _server_fault(engine: Engine, task_id: str, pool: str) -> WaitCause | None:
    """Return the fault of a server, or that no worker of the pool lives. A full Redis also loses registrations."""
    if refused := engine.tasks.task_store.fault(task_id):
        return WaitCause("redis", refused)
    if refused := engine.worker_status.broker_fault():
        return WaitCause("broker", f"the broker takes no messages: {refused}")
    if missing := missing_worker_message(engine, pool):
        evicted = engine.tasks.task_store.eviction()
        return (
            WaitCause("redis", f"{evicted}; {missing}, or its registration was evicted")
            if evicted
            else WaitCause("no_worker", missing)
        )
    return None


def _stated_cause(task: Snapshot) -> WaitCause | None:
    """Return the cause that the state of the task names."""
    if target := _switched_off_target(task.position.reason):
        return WaitCause("switched_off", f"{task.position.reason}; on again: roboco switch on {shlex.quote(target)}")
    if task.position.phase is Phase.TURN and task.attempt.deferred_for is not None:
        return _deferral(task)
    return None


def _evident_cause(engine: Engine, pool: str, task: Snapshot | None, queue: Callable[[str], str]) -> WaitCause | None:
    """Return the cause of a task that has not progressed for long."""
    if task is None:
        lost = engine.tasks.task_store.eviction() or "Redis does not have the task"
        return WaitCause("no_state", f"{lost}: a coordinator restores it from the workspace in some minutes")
    if _is_losing(task):
        return WaitCause("lost_attempts", _attempts(task))
    return _waiting_in_queue(engine, queue, pool, task) if pool else None


def missing_worker_message(engine: Engine, pool: str) -> str:
    """Return a message that no worker of the pool lives, with a remedy, or "" if one does."""
    silence = engine.worker_status.registry_snapshot().silence
    return _missing_message(pool, silence) if is_silent(silence[pool]) else ""


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


def awaited_pool(workspace: WorkspaceRecords, task_id: str, task: Snapshot | None) -> str:
    """Return the pool that has to act next, or "" if a worker acts already, or a person or client has to."""
    if task is None or task.position.phase in (Phase.UNDECIDED, Phase.END):
        return COORDINATOR
    match task.position.phase:
        case Phase.TURN if task.attempt.claimed:
            return COORDINATOR if task.attempt.lease_left <= 0 else ""
        case Phase.TURN:
            return (
                COORDINATOR
                if task.attempt.deferred_for is not None or task.attempt.cancel_requested_for is not None
                else "agents"
            )
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


def _switched_off_target(reason: str) -> str:
    """Return the target of the switch that the reason names, or "". Errors of model servers may hold any text."""
    target, found, _ = reason.partition(SWITCHED_OFF)
    try:
        return check_target(target) if found else ""
    except UsageError:
        return ""


def _deferral(task: Snapshot) -> WaitCause:
    again = f"{task.position.reason.partition(NEXT_ATTEMPT)[0]}{NEXT_ATTEMPT}{task.attempt.deferred_for or 0:.0f} s"
    refused = f"; the model server has refused it {task.refusals.count} times in {task.refusals.seconds:.0f} s"
    if BUDGET_WAIT in task.position.reason:
        return WaitCause("budget", again)
    if RATE_WAIT in task.position.reason:
        return WaitCause("rate_limit", again + (refused if task.refusals.count else ""))
    return WaitCause("provider_outage", again + refused) if task.refusals.count else WaitCause("deferred", again)


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


def _is_losing(task: Snapshot) -> bool:
    """Return True if workers have lost attempts at the pending turn or at one of its calls."""
    return (task.position.phase is Phase.TURN and task.attempt.number > 1) or _lost_calls(task) > 0


def _lost_calls(task: Snapshot) -> int:
    calls = task.calls.values() if task.position.phase is Phase.TOOLS else ()
    return sum(state.attempt - 1 for state in calls if state.outcome is None)


def _attempts(task: Snapshot) -> str:
    """Return the history of the leases of the pending work."""
    if task.position.phase is Phase.TURN:
        who, lost = f"the turn of {task.position.agent}", task.attempt.number - 1
    else:
        who, lost = "its tool calls", _lost_calls(task)
    left = (
        f"a worker has it, its lease ends in {task.attempt.lease_left:.0f} s"
        if task.attempt.lease_left > 0
        else "no worker has it"
    )
    return f"attempts at {who} that workers lost: {lost}; messages sent again: {task.position.redeliveries}; {left}"
