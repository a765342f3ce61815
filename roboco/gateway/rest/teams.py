"""teams: the teams that a caller may use, without their prompts, tools, addresses and variables.

No scope shows a prompt: prompts are the work of the team's author, and may describe systems that no caller must know.
"""

from roboco.client.team_details import TeamDetails, team_details
from roboco.gateway.gateway import Gateway
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.rest.endpoints import Endpoints
from roboco.gateway.rest.models import TeamList
from roboco.gateway.rest.parameters import TeamName
from roboco.gateway.teams import named_team, usable_teams

router = Endpoints("teams")


@router.read("/teams", TeamList, "List the teams that this key may use", Scope.READ, Scope.SUBMIT)
def list_teams(gateway: Gateway, caller: Principal) -> object:
    """Return each team of ROBOCO_TEAMS_DIR that the key may use. A team whose file has mistakes is left out."""
    return {"teams": [team_details(name, team) for name, team in usable_teams(gateway.orchestrator, caller)]}


@router.read("/teams/{name}", TeamDetails, "Show a team", Scope.READ, Scope.SUBMIT, statuses=(404,))
def get_team(gateway: Gateway, caller: Principal, name: TeamName) -> TeamDetails:
    """Return the agents and models of a team, and the JSON Schema of the context that its prompts use."""
    return team_details(name, named_team(gateway.orchestrator, caller, name))
