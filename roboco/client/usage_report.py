"""UsageReport: the usage of a task, in all, by agent and by tool, its limits, and the effects of its tools."""

from dataclasses import dataclass

from roboco.client.task import Task
from roboco.client.task_result import usage_of_task
from roboco.domain.limits import Limits
from roboco.domain.schema import Effect
from roboco.domain.usage import Usage


@dataclass(frozen=True)
class UsageReport:
    """The usage of a task so far."""

    task_id: str
    total: Usage
    """Steps, tokens, calls, cost, and the seconds of models and tools, of the whole task."""
    agents: dict[str, Usage]
    """The usage of each agent."""
    tools: dict[str, Usage]
    """The usage of each tool."""
    limits: Limits
    """The limits that apply now: those of the team, with later changes."""
    effects: dict[str, Effect]
    """The effect of each tool that the team declares. The metadata of a step has those that MCP servers declare."""
    memory_of: str
    """Whose memory the tools `remember`, `recall` and `forget` use: `tenant`, a field such as `context.user`, or ""."""


def usage_report(task: Task) -> UsageReport:
    """Return the usage of a task. Cost: its summary, its team, and that of its limits."""
    summary = task.summary()
    team = task.team()
    effects = {tool.name: tool.effect for tool in team.function_tools}
    memory_of = "" if team.memory is None else team.memory.of
    usage = usage_of_task(summary)
    return UsageReport(summary.task_id, usage, summary.agents, summary.tools, task.limits(), effects, memory_of)
