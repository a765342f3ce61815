"""usage_counts: add the usage of a committed step to that of its tenant and of the caller that created the task.

    step committed ─► usage_counts ─► DailyUsage         only tasks that an identified caller has created

It runs after the commit and after the next work is dispatched, so it delays no turn. It is a best effort: a worker that
dies in between, or a Redis that does not answer, loses the usage of one step. The keys have their own slot.
"""

import logging

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import tenant_of
from roboco.domain.usage import tool_usage_of, unfinished_usage, usage_of
from roboco.engine.engine import Engine
from roboco.errors import TransientError
from roboco.ports.daily_usage import Spending

_log = logging.getLogger(__name__)


def count_turn(engine: Engine, task_id: str, first: TaskStep, step: TaskStep) -> None:
    """Count the tokens and the cost of a turn, with unfinished replies before it."""
    used = usage_of(step.metadata)
    _count(engine, task_id, first, step, Spending(used.tokens, used.cost))


def count_results(engine: Engine, task_id: str, first: TaskStep, step: TaskStep) -> None:
    """Count the costs of the tools of a step, and unfinished replies before it. Sub-tasks count their own usage."""
    used = unfinished_usage(step.metadata)
    of_tools = sum(one.cost for name, one in tool_usage_of(step.metadata).items() if name != DELEGATE)
    _count(engine, task_id, first, step, Spending(used.tokens, used.cost + of_tools))


def _count(engine: Engine, task_id: str, first: TaskStep, step: TaskStep, used: Spending) -> None:
    if not used.tokens and not used.cost:
        return
    try:
        by = _creator(engine, task_id, first)
        if isinstance(by, str):
            engine.daily_usage.add(tenant_of(task_id), by, used)
    except TransientError as error:
        _log.warning("step %s of task %s is missing in the usage of the day: %s", step.seq, task_id, error)


def _creator(engine: Engine, task_id: str, first: TaskStep) -> object:
    """Return the caller that has submitted or forked the task. The first step of a fork is that of its source."""
    if (fork := engine.frozen_teams.own_fork_of(task_id, first)) is not None:
        return fork.by
    return first.metadata.get("by")
