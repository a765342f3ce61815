"""routes: the page of the web view and its files. They are public: all data need a caller, and come from the API.

browser ─► /            index.html ─► ui/js/main.js and its imports, ui/css/..., ui/vendor/...   (ETag)
           unknown file: 404         content policy: only files and requests of this origin
"""

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

router = APIRouter(include_in_schema=False)
_ASSETS: Final = StaticFiles(packages=[("roboco.gateway.web", "assets")])
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob:; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


@router.get("/")
async def page(request: Request) -> Response:
    """Return the page."""
    return await asset(request, "index.html")


@router.get("/ui/{path:path}")
async def asset(request: Request, path: str) -> Response:
    """Return a file of the page. Raise HTTPException 404 if there is none."""
    response = await _ASSETS.get_response(path, request.scope)
    response.headers.update(_HEADERS)
    return response
