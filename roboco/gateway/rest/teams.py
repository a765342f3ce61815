"""teams: the teams that a caller may use, without their prompts, tools, addresses and variables.

No scope shows a prompt: prompts are the work of the team's author, and may describe systems that no caller must know.
"""

from fastapi import APIRouter, Request, Response

from roboco.client.team_details import TeamDetails, team_details
from roboco.gateway.access import Caller
from roboco.gateway.bodies.strict_json import StrictJsonRoute
from roboco.gateway.gateway import Gateway, TheGateway
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.rest.answers import read_json
from roboco.gateway.rest.models import TeamList
from roboco.gateway.rest.parameters import TeamName
from roboco.gateway.rest.responses import readable
from roboco.gateway.teams import named_team, usable_teams

router = APIRouter(route_class=StrictJsonRoute, tags=["teams"])


@router.get("/teams", response_model=TeamList, responses=readable(), summary="List the teams that this key may use")
async def list_teams(request: Request, gateway: TheGateway, caller: Caller) -> Response:
    """Return each team of ROBOCO_TEAMS_DIR that the key may use. A team whose file has mistakes is left out."""
    caller.require_any(Scope.READ, Scope.SUBMIT)
    return await read_json(request, gateway, lambda: {"teams": _all(gateway, caller)})


@router.get("/teams/{name}", response_model=TeamDetails, responses=readable(404), summary="Show a team")
async def get_team(request: Request, gateway: TheGateway, caller: Caller, name: TeamName) -> Response:
    """Return the agents and models of a team, and the JSON Schema of the context that its prompts use."""
    caller.require_any(Scope.READ, Scope.SUBMIT)
    return await read_json(request, gateway, lambda: team_details(name, named_team(gateway, caller, name)))


def _all(gateway: Gateway, caller: Principal) -> list[TeamDetails]:
    return [team_details(name, team) for name, team in usable_teams(gateway, caller)]
