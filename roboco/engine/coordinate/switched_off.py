"""switched_off: turns and calls that wait because an operator has switched something off, or for a tenant's budget.

    in its queue ─► claimed ─► switched off: released, with the reason ─► the sweeper checks it, 5 to 30 s later
                                                                            │ without a message to a worker
                                                                            └─► switched on ─► dispatched

No attempt is counted, and no worker is used while the work waits. The checks of many tasks are spread at random, so
that they do not all continue at the same moment.
"""

import random
from typing import Final

from roboco.domain.history.part import ToolCall
from roboco.domain.ids import tenant_of
from roboco.domain.switch import SwitchableWork
from roboco.domain.team.context_policy import SummaryContext
from roboco.domain.team.team import Team
from roboco.domain.team.tool_spec import PydanticTurn
from roboco.engine import day_budgets
from roboco.engine.engine import Engine
from roboco.engine.record.rate_tickets import summary_profile
from roboco.ports.snapshot import Snapshot

FIRST_CHECK_DELAY: Final = 5.0
MAX_CHECK_DELAY: Final = 30.0
"""Seconds until the sweeper checks the work again: as many as it has waited, within these limits."""


def turn_work(team: Team, task_id: str, agent_name: str) -> SwitchableWork:
    """Return the names by which a turn of the agent can be switched off."""
    agent = team.agent(agent_name)
    models = [team.profile(agent).model]
    if isinstance(agent.context, SummaryContext):
        models.append(summary_profile(team, agent_name, agent.context)[1].model)
    return SwitchableWork("agents", tenant_of(task_id), team.name, agent_name, tuple(models))


def call_work(team: Team, task_id: str, agent_name: str, call: ToolCall) -> SwitchableWork:
    """Return the names by which a tool call of the agent can be switched off."""
    return SwitchableWork("tools", tenant_of(task_id), team.name, agent_name, tool=call.tool_name)


def cause_of_wait(engine: Engine, team: Team, task_id: str, agent_name: str, call: ToolCall) -> str | None:
    """Return why a call of the agent waits, or None if it can run: a switch, or the tenant's budget.

    The budget holds for a turn of pydantic-ai, which asks its model. Cost: as `day_budgets.wait`, for such a turn.
    """
    if (switch := engine.process.switches.blocking(call_work(team, task_id, agent_name, call))) is not None:
        return switch.cause
    if not isinstance(team.tool(call.tool_name), PydanticTurn):
        return None
    wait = day_budgets.wait(engine, task_id, agent_name)
    return None if wait is None else wait[1]


def check_delay(engine: Engine, task: Snapshot) -> float:
    """Return the seconds until the next check of work that is switched off."""
    waited = engine.clock.now() - task.position.dispatched_at
    return min(MAX_CHECK_DELAY, max(FIRST_CHECK_DELAY, waited)) * random.uniform(0.8, 1.0)  # noqa: S311 - spreads load
