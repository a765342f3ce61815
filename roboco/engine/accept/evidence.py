"""evidence: the causes of a wait that the state of a task shows by itself, without a question to a server."""

import shlex
from typing import Literal, NamedTuple

from roboco.domain.day_budget import BUDGET_WAIT
from roboco.domain.rate_report import NEXT_ATTEMPT, RATE_WAIT
from roboco.domain.switch import SWITCHED_OFF, check_target
from roboco.errors import UsageError
from roboco.ports.snapshot import Phase, Snapshot

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


def recorded_cause(task: Snapshot, now: float) -> WaitCause | None:
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
    found = recorded_cause(task, now)
    return task.position.reason if found is None else found.text


def stated_cause(task: Snapshot) -> WaitCause | None:
    """Return the cause that the state of the task names."""
    if target := _switched_off_target(task.position.reason):
        return WaitCause("switched_off", f"{task.position.reason}; on again: roboco switch on {shlex.quote(target)}")
    if task.position.phase is Phase.TURN and task.attempt.deferred_for is not None:
        return _deferral(task)
    return None


def _switched_off_target(reason: str) -> str:
    """Return the target of the switch that the reason names, or "". Errors of model servers may hold any text."""
    target, found, _ = reason.partition(SWITCHED_OFF)
    try:
        return check_target(target) if found else ""
    except UsageError:
        return ""


def _deferral(task: Snapshot) -> WaitCause:
    again = f"{task.position.reason.partition(NEXT_ATTEMPT)[0]}{NEXT_ATTEMPT}{task.attempt.deferred_for or 0:.0f} s"
    refused = f"; failed attempts: {task.refusals.count} in {task.refusals.seconds:.0f} s"
    if BUDGET_WAIT in task.position.reason:
        return WaitCause("budget", again)
    if RATE_WAIT in task.position.reason:
        return WaitCause("rate_limit", again + (refused if task.refusals.count else ""))
    return WaitCause("provider_outage", again + refused) if task.refusals.count else WaitCause("deferred", again)


def is_losing(task: Snapshot) -> bool:
    """Return True if workers have lost attempts at the pending turn or at one of its calls."""
    return (task.position.phase is Phase.TURN and task.attempt.number > 1) or _lost_calls(task) > 0


def _lost_calls(task: Snapshot) -> int:
    calls = task.calls.values() if task.position.phase is Phase.TOOLS else ()
    return sum(state.attempt - 1 for state in calls if state.outcome is None)


def attempts_of(task: Snapshot) -> str:
    """Return the history of the leases of the pending work."""
    if task.position.phase is Phase.TURN:
        who, lost = f"the turn of {task.position.agent}", task.attempt.number - 1
    else:
        who, lost = "its tool calls", _lost_calls(task)
    left = task.attempt.lease_left
    held = f"a worker has it, its lease ends in {left:.0f} s" if left > 0 else "no worker has it"
    return f"attempts at {who} that workers lost: {lost}; messages sent again: {task.position.redeliveries}; {held}"
