"""catalog: the teams as models."""

from typing import Any

from fastapi import APIRouter

from roboco.gateway.access import Caller
from roboco.gateway.bodies.strict_json import StrictJsonRoute
from roboco.gateway.gateway import TheGateway
from roboco.gateway.openai.problems import unknown_model
from roboco.gateway.principal import Scope
from roboco.gateway.teams import model_names, team_names

router = APIRouter(prefix="/openai/v1", tags=["openai"], route_class=StrictJsonRoute)


@router.get("/models", summary="List the teams")
async def list_models(caller: Caller, gateway: TheGateway) -> dict[str, Any]:
    """Return the teams that the caller may use, each as a model."""
    caller.require(Scope.READ)
    return {
        "object": "list",
        "data": [_model(name) for name in await gateway.calls.reads.run(model_names, gateway.orchestrator, caller)],
    }


@router.get("/models/{name}", summary="Get a team")
async def get_model(name: str, caller: Caller, gateway: TheGateway) -> dict[str, Any]:
    """Return a team as a model."""
    caller.require(Scope.READ)
    known = model_names if ":" in name else team_names
    if name not in await gateway.calls.reads.run(known, gateway.orchestrator, caller):
        raise unknown_model(name[:80])
    return _model(name)


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "roboco"}
