"""Gateways over HTTP for roboto.ai's own client: two replicas behind a round robin that can lose answers."""

import asyncio
import socket
import threading
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import uvicorn
from fastapi import FastAPI
from roboto.config import RobotoConfig
from roboto.http import RobotoClient
from starlette.types import Message, Receive, Scope, Send

from roboco import Orchestrator, Settings
from roboco.gateway import GatewaySettings, create_app
from tests.support.stack import until


@dataclass
class Replicas:
    """Applications that requests reach in turn. After a request whose path ends so, the answer is lost: 502."""

    apps: list[FastAPI]
    lost: list[str] = field(default_factory=list)
    """The ends of paths of which the answer to the next POST is lost."""
    paths: list[str] = field(default_factory=list)
    """The paths of all requests, with their methods."""
    loop: asyncio.AbstractEventLoop | None = None

    def __post_init__(self) -> None:
        self._turns = cycle(self.apps)
        self.endpoint = ""

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        self.loop = asyncio.get_running_loop()
        path = f"{scope['method']} {scope['path']}"
        self.paths.append(path)
        app = next(self._turns)
        end = next((end for end in self.lost if path.endswith(end)), None)
        if end is None:
            await app(scope, receive, send)
            return
        self.lost.remove(end)
        await app(scope, receive, _drop)
        await send({"type": "http.response.start", "status": 502, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def close(self) -> None:
        """Announce to each application that its process is about to exit."""
        assert self.loop is not None
        for app in self.apps:
            self.loop.call_soon_threadsafe(app.state.gateway.closing.set)

    def client(self, key: str = "local-key") -> RobotoClient:
        """Return roboto.ai's HTTP client for this endpoint."""
        return RobotoClient.from_config(RobotoConfig(api_key=key, endpoint=self.endpoint))


async def _drop(message: Message) -> None:
    pass


@contextmanager
def serving(settings: Settings, replicas: int = 2, **changes: Any) -> Iterator[Replicas]:
    """Yield replicas of the gateway, without authentication, that serve on a free port in a thread."""
    clients = [Orchestrator(settings) for _ in range(replicas)]
    chosen = GatewaySettings(authentication=False, **changes)
    balanced = Replicas([create_app(client, chosen) for client in clients])
    listener = socket.create_server(("127.0.0.1", 0))
    balanced.endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = uvicorn.Config(_typed(balanced), lifespan="off", ws="none", log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
    thread.start()
    try:
        until(lambda: server.started, 60, "the gateway listens")
        yield balanced
    finally:
        server.should_exit = server.force_exit = True
        thread.join(10)
        for app in balanced.apps:
            app.state.gateway.close()


def _typed(balanced: Replicas) -> Any:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await balanced(scope, receive, send)

    return app
