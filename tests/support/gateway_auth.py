"""A gateway in this process with authentication, over the ports in memory, and its keys."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from fastapi import FastAPI
from fastapi.testclient import TestClient

from roboco.client.orchestrator import Orchestrator
from roboco.gateway.app import create_app
from roboco.gateway.gateway import Gateway
from roboco.gateway.settings import GatewaySettings
from roboco.settings import Settings
from tests.support.gateway_callers import UNLIMITED
from tests.support.memory_ports.model import says
from tests.support.memory_ports.world import World, world_parts

SECRET: Final = "0123456789abcdef0123456789abcdef"
HERE: Final = "http://localhost"


class AuthWorld:
    """A gateway and the deployment behind it."""

    def __init__(self, folder: Path, client: Mapping[str, Any], **settings: Any) -> None:
        self.world = World(world_parts(lambda _: says("done")))
        self.orchestrator = Orchestrator(Settings(workspace=f"file://{folder}/unused", **client))
        self.orchestrator._engine = self.world.engine
        self.app: FastAPI = create_app(self.orchestrator, GatewaySettings(**UNLIMITED | settings))
        self.gateway: Gateway = self.app.state.gateway
        self.client = TestClient(self.app, base_url=HERE, raise_server_exceptions=False)

    def key(self, **options: Any) -> str:
        """Return the text of a new key."""
        return self.orchestrator.operator.create_key(**({"name": "test"} | options)).text

    def me(self, key: str | None = None, **headers: str) -> Any:
        """Return the response to GET /v1/me."""
        own = {} if key is None else {"authorization": f"Bearer {key}"}
        return self.client.get("/v1/me", headers=own | headers)


@contextmanager
def auth_world(folder: Path, client: Mapping[str, Any] = MappingProxyType({}), **settings: Any) -> Iterator[AuthWorld]:
    """Yield a gateway over an empty deployment, with these settings of its client, and close it."""
    started = AuthWorld(folder, client, **settings)
    with started.client:
        yield started
