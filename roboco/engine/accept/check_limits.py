"""check_limits: check limits that a caller names for a task."""

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.limits import LimitOverrides
from roboco.engine.engine import WorkspaceRecords
from roboco.errors import UsageError


def check_limits(workspace: WorkspaceRecords, task_id: str, limits: LimitOverrides) -> None:
    """Raise UsageError if the task cannot have these limits: its team lacks a named agent or tool."""
    if "max_steps" in limits.overrides() and limits.max_steps is None:
        raise UsageError("limits.max_steps: cannot be removed; pass a number")
    team = workspace.frozen_teams.get(task_id)
    for name in limits.agents:
        team.check_agent(name)
    tools = {
        tool for agent in team.agents for tool in (*team.tools_of(agent), *([DELEGATE] if agent.sub_teams else []))
    }
    named = sorted(set(limits.tools) - tools)
    if unknown := [tool for tool in named if not any(team.may_call(agent, tool) for agent in team.agents)]:
        possible = ", ".join(sorted(tools)) or "none: the team has no tools"
        raise UsageError(f"limits.tools: no tool {unknown[0]!r} in team {team.name!r}, possible are {possible}")
