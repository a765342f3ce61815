"""Agents of roboto.ai are teams: each team of ROBOCO_TEAMS_DIR is an agent with one variable, the prompt.

Teams are files of the operator, so no client creates, changes or deletes one.
"""

from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from roboco.domain.team.model_offer import profile_infos
from roboco.domain.team.team import Team
from roboco.gateway.access import Caller
from roboco.gateway.gateway import TheGateway
from roboco.gateway.idempotency import IdempotencyKey
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import Problem, invalid
from roboco.gateway.roboto.answers import answer_with_session
from roboco.gateway.roboto.errors import CreatingRoute, RobotoRoute, enveloped
from roboco.gateway.roboto.requests import InvokeRequest, StartRequest, TextBlock, WireMessage
from roboco.gateway.roboto.starting import owner, start_session
from roboco.gateway.teams import named_team, usable_teams

PROMPT: Final = "prompt"
"""The variable of each agent."""
_OPERATOR: Final = "operator"
_UNKNOWN_TIME: Final = "1970-01-01T00:00:00Z"
"""The time of a team's creation, which Roboco does not know."""

router = APIRouter(prefix="/v1/ai", route_class=RobotoRoute, include_in_schema=False)


@router.get("/agents")
async def list_agents(gateway: TheGateway, caller: Caller) -> JSONResponse:
    """Return the teams that the caller may use, as agents."""
    caller.require(Scope.READ)
    teams = await gateway.calls.reads.run(lambda: list(usable_teams(gateway.orchestrator, caller)))
    return enveloped({"items": [_agent_record(team, caller) for _, team in teams], "next_token": None})


@router.get("/agents/name/{name}")
@router.get("/agents/{name}")
async def get_agent(name: str, gateway: TheGateway, caller: Caller) -> JSONResponse:
    """Return a team as an agent. Its id is its name."""
    caller.require(Scope.READ)
    return enveloped(
        _agent_record(await gateway.calls.reads.run(named_team, gateway.orchestrator, caller, name), caller)
    )


@router.get("/model-profiles")
async def list_model_profiles(gateway: TheGateway, caller: Caller) -> JSONResponse:
    """Return the model profiles of the team of new chats."""
    caller.require(Scope.READ)
    if (name := gateway.settings.roboto_team) is None:
        return enveloped([])
    found = profile_infos(await gateway.calls.reads.run(named_team, gateway.orchestrator, caller, name))
    return enveloped([profile.model_dump(mode="json", exclude={"model"}) for profile in found])


async def invoke(
    name: str, request: InvokeRequest, gateway: TheGateway, caller: Caller, key: IdempotencyKey = None
) -> JSONResponse:
    """Start a session of a team with the prompt."""
    caller.require(Scope.SUBMIT)
    if unknown := sorted(set(request.values) - {PROMPT}):
        raise invalid(f"values: no variable {', '.join(unknown)[:200]}; variables: {PROMPT}")
    if not (prompt := request.values.get(PROMPT, "")).strip():
        raise invalid(f"values: {PROMPT!r} is missing")
    message = WireMessage(role="user", content=[TextBlock(text=prompt)])
    start = StartRequest(messages=[message], analysis_scope=request.analysis_scope)
    task = await start_session(gateway, caller, name, start, owner(caller, None), key)
    return await answer_with_session(gateway, task, 1)


for _path in ("/agents/{name}/invoke", "/agents/{name}/launch"):
    router.add_api_route(_path, invoke, methods=["POST"], route_class_override=CreatingRoute)


async def refuse_change() -> JSONResponse:
    """Refuse to create, change or delete an agent."""
    raise Problem(400, "invalid", "agents are team files of the operator", "change the files in ROBOCO_TEAMS_DIR")


router.add_api_route("/agents", refuse_change, methods=["POST"])
router.add_api_route("/agents/{name}", refuse_change, methods=["PUT", "DELETE"])


async def refuse_unknown(path: str) -> JSONResponse:
    """Refuse an operation that Roboco does not have, in roboto.ai's form."""
    raise Problem(404, "method_not_allowed", f"Roboco has no operation /v1/ai/{path[:200]} with this method")


router.add_api_route("/{path:path}", refuse_unknown, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])


def _agent_record(team: Team, caller: Principal) -> dict[str, Any]:
    return {
        "agent_id": team.name,
        "org_id": caller.tenant or "",
        "name": team.name,
        "description": team.description or None,
        "request_template": {
            "messages": [{"role": "user", "content": [{"text": "{{" + PROMPT + "}}"}], "status": "not_started"}]
        },
        "variables": [{"name": PROMPT, "type": "string", "description": "The work for the team.", "required": True}],
        "created": _UNKNOWN_TIME,
        "created_by": _OPERATOR,
        "modified": _UNKNOWN_TIME,
        "modified_by": _OPERATOR,
    }
