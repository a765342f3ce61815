"""switched_off: turns and calls that wait because an operator has switched something off.

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
from roboco.engine.engine import Engine
from roboco.engine.record.rate_tickets import summary_profile
from roboco.ports.task_store import Snapshot

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


def check_delay(engine: Engine, task: Snapshot) -> float:
    """Return the seconds until the next check of work that is switched off."""
    waited = engine.clock.now() - task.position.dispatched_at
    return min(MAX_CHECK_DELAY, max(FIRST_CHECK_DELAY, waited)) * random.uniform(0.8, 1.0)  # noqa: S311 - spreads load
