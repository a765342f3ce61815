"""health: whether the process lives, and whether it can serve requests."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from roboco.gateway.gateway import TheGateway

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="The process lives")
async def healthz() -> dict[str, str]:
    """Answer without Redis and without the store, so that an orchestrator does not restart a gateway in vain."""
    return {"status": "ok"}


@router.get("/readyz", summary="The process takes requests", responses={503: {"description": "The process exits."}})
async def readyz(gateway: TheGateway) -> JSONResponse:
    """Answer 503 while the process is about to exit, so that a load balancer sends no further requests."""
    if gateway.closing.is_set():
        return JSONResponse({"status": "closing"}, 503)
    return JSONResponse({"status": "ok"})
