"""sign_in: browsers exchange a key for a cookie that scripts cannot read, and callers see who they are."""

import time
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from roboco.gateway import session_cookie
from roboco.gateway.access import Caller
from roboco.gateway.authentication import principal_of
from roboco.gateway.bodies.strict_json import StrictJsonRoute
from roboco.gateway.gateway import TheGateway
from roboco.gateway.origin import check_origin, host_name
from roboco.gateway.problem import Problem
from roboco.gateway.rest.responses import problems

SESSION_SECONDS: Final = 12 * 3600
"""Seconds for which a browser is signed in."""
router = APIRouter(route_class=StrictJsonRoute, prefix="/v1", tags=["sign-in"], responses=problems())


class SignIn(BaseModel):
    """The key of a caller that signs in."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    key: str = Field(max_length=200, repr=False)
    """The text of the key: `rbk_ID_SECRET`."""


class Me(BaseModel):
    """The caller of a request."""

    by: str
    """Its identity in histories and logs."""
    tenant: str | None
    """The tenant whose tasks it reaches, or null for all."""
    scopes: list[str]
    """The kinds of requests that it may make."""
    teams: list[str] | None
    """The teams that it may use, or null for all."""
    limits: dict[str, Any]
    """Its limits; one that is absent is none."""


@router.post("/sign-in", summary="Sign in with a key")
async def sign_in(request: Request, response: Response, gateway: TheGateway, body: SignIn) -> Me:
    """Set a cookie that a page of this host sends with each request. It ends with the key, or after some hours."""
    check_origin(request.scope)
    settings = gateway.settings
    if not settings.cookie_secret:
        remedy = "an operator sets ROBOCO_GATEWAY_COOKIE_SECRET, the same for all processes"
        raise Problem(403, "forbidden", "browsers cannot sign in at this gateway", remedy)
    key = await gateway.authenticator.key(body.key)
    caller = principal_of(key, settings.limits)
    request.scope["roboco.by"] = caller
    value = session_cookie.issue(key, settings.cookie_secret, time.time(), SESSION_SECONDS)
    cookie = session_cookie.set_cookie(host_name(request.scope), value, SESSION_SECONDS)
    response.headers["Set-Cookie"] = cookie
    return await me(caller)


@router.post("/sign-out", status_code=204, response_class=Response, summary="Sign out")
async def sign_out(request: Request, caller: Caller) -> Response:
    """Delete the cookie of this browser. Revoke the key to end all of its sessions."""
    cookie = session_cookie.set_cookie(host_name(request.scope), "", 0)
    return Response(status_code=204, headers={"Set-Cookie": cookie})


@router.get("/me", summary="Show the caller")
async def me(caller: Caller) -> Me:
    """Return the identity, the tenant, the scopes and the limits of the caller."""
    return Me(
        by=caller.by,
        tenant=caller.tenant,
        scopes=sorted(caller.scopes),
        teams=None if caller.teams is None else sorted(caller.teams),
        limits=caller.limits.model_dump(exclude_none=True),
    )
