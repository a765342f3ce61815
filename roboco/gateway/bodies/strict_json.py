"""strict_json: routes whose bodies name each member of an object once.

Parsers differ in which of two equal names counts. A proxy that checks a request could so see another one.
"""

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute


class StrictJsonRoute(APIRoute):
    """A route that refuses a body whose objects repeat a name."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of requests."""
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return handle_strictly


class _StrictRequest(Request):
    async def json(self) -> Any:
        """Return the body. Raise HTTPException 400, which FastAPI lets pass, if a name is repeated."""
        return json.loads(await self.body(), object_pairs_hook=unique_names)


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these members. Raise HTTPException 400 if a name is repeated."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise HTTPException(400, f"an object of the body has the name {twice[:80]!r} twice")
    return found
