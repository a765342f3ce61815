"""prompt: the variables that the template of an agent's prompt may use."""

from collections.abc import Mapping
from typing import Any

from roboco.domain.history.step import PROMPT, TaskStep
from roboco.domain.team.team import Agent, Team
from roboco.templates.templates import JinjaPrompts


def render_prompt(prompts: JinjaPrompts, team: Team, agent: Agent, task_id: str, first: TaskStep) -> str:
    """Return the agent's prompt for this task; UsageError if its template uses an undefined variable."""
    return prompts.render(agent.prompt, _variables(team, agent, task_id, first))


def _variables(team: Team, agent: Agent, task_id: str, first: TaskStep) -> Mapping[str, Any]:
    return {
        "task": {"id": task_id, "prompt": first.metadata.get(PROMPT, first.text)},
        "team": {
            "name": team.name,
            "description": team.description,
            "agents": [{"name": member.name, "description": member.description} for member in team.agents],
        },
        "agent": {"name": agent.name, "description": agent.description},
        "context": first.metadata.get("context", {}),
    }
