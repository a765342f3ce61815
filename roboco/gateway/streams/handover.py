"""handover: serve a stream after its route has returned, so that it does not hold the memory of the route's framework.

middleware of the application ─► StreamHandover ─► router, route ─► LiveResponse enters itself, and returns
                                      └──────────────────────────◄─┘ serves it
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

HANDOVER: Final = "roboco.stream"
"""The field of an ASGI scope with the list that a stream enters."""


Serve = Callable[[Receive, Send], Awaitable[None]]
"""Sends a response after its route has returned."""


class StreamHandover:
    """The innermost middleware. It serves the streams that routes return; other responses pass unchanged."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI request."""
        streams: list[Serve] = []
        scope[HANDOVER] = streams
        await self._app(scope, receive, send)
        for name in [name for name in scope if name.startswith("fastapi")]:
            del scope[name]
        if streams:
            await streams.pop()(receive, send)


def hand_over(scope: Scope, stream: Serve) -> bool:
    """Enter the stream, which is served once its route has returned. Return False without the middleware."""
    streams: Any = scope.get(HANDOVER)
    if streams is None:
        return False
    streams.append(stream)
    return True
