"""A gateway in this process, over the ports in memory, with callers that tests choose by a header."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.datastructures import Headers

from roboco.broker.queues import QueueStats
from roboco.client.operator.operations import OpenTasks, Operations
from roboco.client.orchestrator import Orchestrator
from roboco.domain.rate_report import RateReport
from roboco.domain.team.team import Team
from roboco.gateway.app import create_app
from roboco.gateway.idempotency import DERIVED
from roboco.gateway.principal import ALL_SCOPES, Principal, Scope
from roboco.gateway.problem import Problem
from roboco.gateway.settings import GatewaySettings
from roboco.settings import Settings
from tests.support.gateway_callers import UNLIMITED, choose_callers
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.world import World, world_parts

KEY: Final = "authorization"
"""The header that names the caller of a test. A gateway with real keys has its own tests."""
CALLERS: Final[Mapping[str, Principal]] = {
    "local": Principal("local", None, ALL_SCOPES),
    "acme": Principal("key:acme", "acme", ALL_SCOPES - {Scope.OPERATE}),
    "other": Principal("key:other", "other", ALL_SCOPES - {Scope.OPERATE}),
    "desk": Principal("key:desk", "acme", ALL_SCOPES - {Scope.OPERATE}, frozenset({"desk"})),
    "front": Principal("key:front", "acme", ALL_SCOPES - {Scope.OPERATE}, utility_model="good"),
    "submitter": Principal("key:submitter", "acme", frozenset({Scope.SUBMIT})),
    "reader": Principal("key:reader", "acme", frozenset({Scope.READ, Scope.SUBMIT})),
    "none": Principal("key:none", "acme", frozenset()),
    "plain": Principal("key:plain", "acme", frozenset({Scope.READ, Scope.SUBMIT, Scope.CONTROL, Scope.APPROVE})),
}
"""The callers by the values of the header."""
DESK: Final[dict[str, Any]] = {
    "name": "desk",
    "description": "writes notes",
    "models": {
        "quick": {"model": "small", "label": "Quick", "default": True},
        "good": {"model": "large", "api_key_env": "SECRET_KEY"},
    },
    "agents": [
        {
            "name": "writer",
            "description": "writes",
            "prompt": "You write.{% if context.customer is defined %} For {{ context.customer.name }}.{% endif %}",
            "tools": ["ship"],
        }
    ],
    "tools": [{"name": "ship", "function": "shop.tools:ship", "effect": "pure", "approval": "required"}],
}
LAB: Final[dict[str, Any]] = {"name": "lab", "agents": [{"name": "chemist", "prompt": "Secret recipe."}]}


SMALL_RATE = RateReport(
    model="small", requests=5, max_requests=10, tokens=70, max_tokens=100, waiting=1, pause_left=0.5
)
LARGE_RATE = RateReport(
    model="large (desk)", requests=5, max_requests=None, tokens=None, max_tokens=None, waiting=0, pause_left=0
)


class RestWorld:
    """A gateway and the deployment behind it, whose workers run when a test settles a task."""

    def __init__(self, folder: Path, settings: GatewaySettings, client: Mapping[str, Any]) -> None:
        self.replies: list[ScriptedReply] = []
        self.queues = [QueueStats("roboco.agents", 0), QueueStats("roboco.tools", 2, time.time() - 7)]
        self.rates = [SMALL_RATE, LARGE_RATE]
        self.world = World(world_parts(self._reply, {"ship": lambda args, context: {"shipped": True}}))
        for team in (DESK, LAB):
            (folder / f"{team['name']}.yaml").write_text(yaml.safe_dump(team))
        self.orchestrator = Orchestrator(Settings(teams_dir=folder, workspace=f"file://{folder}/unused", **client))
        self.orchestrator._engine = self.world.engine
        live = (lambda: self.queues, lambda: self.rates, lambda _: OpenTasks())
        self.orchestrator._operations = Operations(self.world.engine, *live)
        self.app: FastAPI = create_app(self.orchestrator, settings)
        choose_callers(self.app, _caller)
        self.client = TestClient(self.app, raise_server_exceptions=False)

    def _reply(self, request: object) -> ScriptedReply:
        return self.replies.pop(0) if self.replies else says("done")

    def run(self, task_id: str = "acme:t1", *replies: ScriptedReply, caller: str = "acme", **fields: Any) -> str:
        """Create a task of the team desk, let it run until it rests, and return its id."""
        self.replies = list(replies)
        body = {"team": "desk", "prompt": "hello", "task_id": task_id} | fields
        if DERIVED.fullmatch(task_id.rpartition(":")[2]):  # a task of a chat, which REST does not create
            team = body.pop("team")
            team = Team.model_validate(team) if isinstance(team, dict) else team
            self.orchestrator.run(team, body.pop("prompt"), tenant=CALLERS[caller].tenant, **body)
        else:
            answer = self.client.post("/v1/tasks", json=body, headers={KEY: caller})
            assert answer.status_code == 201, answer.text
        self.world.settle(task_id)
        return task_id

    def get(self, path: str, caller: str = "acme", **headers: str) -> Any:
        """Return the response to GET."""
        return self.client.get(path, headers={KEY: caller, **headers}, follow_redirects=False)

    def post(self, path: str, body: Any = None, caller: str = "acme", **headers: str) -> Any:
        """Return the response to POST."""
        return self.client.post(path, json=body, headers={KEY: caller, **headers})


def _caller(headers: Headers) -> Principal:
    found = CALLERS.get(headers.get(KEY, ""))
    if found is None:
        raise Problem(401, "unauthorized", "no key", "send a key", {"WWW-Authenticate": "Bearer"})
    return found


@contextmanager
def rest_world(folder: Path, client: Mapping[str, Any] = MappingProxyType({}), **settings: Any) -> Iterator[RestWorld]:
    """Yield a gateway over an empty deployment, with these settings of its client, and close it."""
    of_gateway = GatewaySettings(authentication=False, allowed_hosts=("testserver",), **UNLIMITED | settings)
    started = RestWorld(folder, of_gateway, client)
    with started.client:
        yield started


__all__ = ["CALLERS", "DESK", "KEY", "LAB", "RestWorld", "rest_world"]
