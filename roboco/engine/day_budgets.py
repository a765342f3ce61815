"""day_budgets: the usage of tasks by day, for the budgets of tenants and the limits of callers.

    turn's step stored ─► usage of its task on this day ─► committed, dispatched ─► next turn: checked
    pass loads the task ──► (set, if it is newer)            └── if no budget       └── used up: it waits
                                                                 counts it: set

The state of a task holds its usage of the day, as a fold of its history. So a count carries the whole usage of
the task, and not that of a step: a repetition, a late one and one after any loss in Redis are right. Redis may be
emptied between a count and the write of the task: then the task is rebuilt, and the pass that loads it counts it again.
The usage of tasks that have ended before is lost.

Before a turn sends its request, it reserves what the reply may use. So turns that run at the same time cannot exceed
the budget together, and those of a caller not its limits: a turn waits while the reservations of others leave no room.
A task has one reservation of each kind. The count of its next step ends it, and a later reservation replaces it: that
of a dead worker, when its lease has expired.
"""

import logging
from typing import Final

from roboco.domain.day_budget import BUDGET_WAIT
from roboco.domain.history.step import TaskStep
from roboco.domain.history.task_state import TaskState
from roboco.domain.ids import tenant_of
from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.usage import DayUsage, ModelUsage, billionths, day_of, next_day
from roboco.engine.engine import Engine
from roboco.errors import TransientError
from roboco.ports.snapshot import Snapshot

_log = logging.getLogger(__name__)

MAX_WAIT: Final = 300.0
"""Seconds after which a turn that waits for its tenant's budget checks it again: it may have been raised."""
RESERVED_WAIT: Final = 5.0
"""Seconds after which a turn asks again that waits for the replies of other tasks."""


def count(engine: Engine, task_id: str, first: TaskStep, state: TaskState, ends_turn: bool = False) -> None:
    """Count the usage of the task's day for the budget of its tenant, if it has one. A repetition is harmless.

    Without usage of today, count zero if a step or the task's end `ends_turn`, since the turn's reservation ends
    with it. Else count nothing: a turn may have reserved its usage. Raise TransientError if Redis does not answer:
    then the step is not committed, or the pass is repeated. Cost: one script, for a tenant with a budget.
    """
    if engine.policy.budgets.of(tenant_of(task_id)) is not None:
        _count(engine, task_id, _creator(engine, task_id, first), state, ends_turn)


def count_for_caller(engine: Engine, task_id: str, first: TaskStep, state: TaskState) -> None:
    """Count the same for the limits of the caller that created the task, if no budget has counted it.

    It delays no turn, since the next work is dispatched, and fails none: the next step counts a lost usage.
    """
    try:
        by = _creator(engine, task_id, first)
        if by is not None and engine.policy.budgets.of(tenant_of(task_id)) is None:
            _count(engine, task_id, by, state, ends_turn=True)
    except TransientError as error:
        _log.warning("the usage of task %s is missing in that of the day: %s", task_id, error)


def wait(engine: Engine, task_id: str, agent: str) -> tuple[float, str] | None:
    """Return for how many seconds a turn waits for the tenant's budget, and why, or None if it can run.

    Cost: one HMGET if the tenant has a budget, else nothing.
    """
    tenant, now = tenant_of(task_id), engine.now()
    if (budget := engine.policy.budgets.of(tenant)) is None:
        return None
    if (reached := budget.reached(engine.services.rate_limiter.spent(tenant, day_of(now)))) is None:
        return None
    seconds = min(MAX_WAIT, (next_day(now) - now).total_seconds() + 1.0)
    until = f"{next_day(now):%Y-%m-%d %H:%M} UTC"
    return seconds, f"{agent} waits: tenant {tenant} {reached.text}; it continues at {until}, {BUDGET_WAIT}"


def reserve(
    engine: Engine, task_id: str, task: Snapshot, used: ModelUsage, profile: ModelProfile
) -> tuple[float, str] | None:
    """Reserve the usage of a turn's request. Return for how long the turn waits, and why, or None if it can run.

    Cost: one script if the tenant has a budget, and one if the task has a caller; a failure of that delays nothing.
    """
    tenant, tokens = tenant_of(task_id), used.tokens_in + used.tokens_out
    wanted = DayUsage(day=day_of(engine.now()), tokens=tokens, cost_billionths=billionths(profile.cost(used)))
    whose, others = f"tenant {tenant}", None
    if (budget := engine.policy.budgets.of(tenant)) is not None:
        others = engine.services.rate_limiter.reserve_day(task_id, wanted, budget)
    if others is None and (by := _creator(engine, task_id, task.steps.first)) is not None:
        whose, others = by, _reserve_for_caller(engine, task_id, by, task, wanted)
    if others is None:
        return None
    is_alone = not others.tokens and not others.cost_billionths
    reserved = f"{others.tokens} tokens and {others.cost:g} are reserved for replies of other tasks"
    why = f"nears its budget, {reserved}; it asks again"
    if is_alone:
        why = "has used up its limit of the day; it continues on the next day"
    return (MAX_WAIT if is_alone else RESERVED_WAIT), f"{task.position.agent} waits: {whose} {why}, {BUDGET_WAIT}"


def release(engine: Engine, task_id: str, task: Snapshot) -> None:
    """End the reservations of a turn that waits. Cost: as `reserve`. If it fails, the next one replaces it."""
    nothing = DayUsage(day=day_of(engine.now()))
    if engine.policy.budgets.of(tenant_of(task_id)) is not None:
        try:
            engine.services.rate_limiter.reserve_day(task_id, nothing, None)
        except TransientError as error:
            _log.warning("the reservation of task %s ends later: %s", task_id, error)
    if (by := _creator(engine, task_id, task.steps.first)) is not None:
        _reserve_for_caller(engine, task_id, by, task, nothing)


def _reserve_for_caller(engine: Engine, task_id: str, by: str, task: Snapshot, wanted: DayUsage) -> DayUsage | None:
    try:
        return engine.services.rate_limiter.reserve_for_caller(task_id, by, task.state.steps, wanted)
    except TransientError as error:
        _log.warning("the limits of the caller of task %s are not applied to its turn: %s", task_id, error)
        return None


def _count(engine: Engine, task_id: str, by: str | None, state: TaskState, ends_turn: bool = False) -> None:
    today = day_of(engine.now())
    if state.day_usage.day >= today:
        engine.services.rate_limiter.count_day(task_id, by, state.steps, state.day_usage)
    elif ends_turn:
        engine.services.rate_limiter.count_day(task_id, by, state.steps, DayUsage(day=today))


def _creator(engine: Engine, task_id: str, first: TaskStep) -> str | None:
    """Return the caller that has submitted or forked the task. The first step of a fork is that of its source."""
    fork = engine.workspace.frozen_teams.own_fork_of(task_id, first)
    by = first.metadata.get("by") if fork is None else fork.by
    return by if isinstance(by, str) else None
