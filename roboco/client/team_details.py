"""TeamDetails: a team as its users may see it, without prompts, tools and addresses."""

from typing import Any

from roboco.domain.schema import RecordModel
from roboco.domain.team.model_offer import ModelProfileInfo, profile_infos
from roboco.domain.team.team import Team
from roboco.templates.context_schema import context_schema


class AgentInfo(RecordModel):
    """A member of a team."""

    name: str
    description: str = ""


class TeamDetails(RecordModel):
    """A team for its users. It contains no prompt, tool, address, or name of an environment variable."""

    name: str
    """The name by which a task of the team is submitted."""
    description: str = ""
    agents: list[AgentInfo]
    """The agents, in the order of the team file; `agent` of a message may name one."""
    initial_agent: str
    """The agent that acts first, unless the submission names another one."""
    models: list[ModelProfileInfo] = []
    """The model profiles; `model` of a submission may name one."""
    context_schema: dict[str, Any]
    """The JSON Schema of the context, as the prompts of the agents use it. It states no types."""


def team_details(name: str, team: Team) -> TeamDetails:
    """Return the details of a team that is submitted by this name. Cost: the templates are parsed."""
    return TeamDetails(
        name=name,
        description=team.description,
        agents=[AgentInfo(name=agent.name, description=agent.description) for agent in team.agents],
        initial_agent=team.initial_agent,
        models=profile_infos(team),
        context_schema=context_schema(agent.prompt for agent in team.agents),
    )
