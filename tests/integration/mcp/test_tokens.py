"""OAuth: tokens of client credentials, of tenants and of users, and one new token for all workers."""

import json
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler
from types import ModuleType
from typing import Any, cast
from urllib.parse import parse_qs

import pytest

from roboco.domain.team.mcp_server import McpServer
from roboco.errors import UsageError
from roboco.local.valkey import ValkeyServer
from roboco.ports.tools import TaskOwner
from roboco.process.credentials import Credentials
from roboco.redis.client import connect
from roboco.redis.keys import Keys
from roboco.redis.mcp_tokens import RedisTokenStore
from roboco.tools.mcp.servers import McpServers
from tests.support import tenant_credentials
from tests.support.mcp_servers import never
from tests.support.servers.web import INITIALIZED, respond, send_json, serving

pytestmark = pytest.mark.slow

SECRET = "the-secret-of-the-client"


class Provider:
    """An MCP server whose tool says whose token it got, and the authorization server of the same address."""

    def __init__(self) -> None:
        self.valid: dict[str, str] = {}
        self.issued = 0
        self.requests: Counter[str] = Counter()
        self.forms: list[dict[str, list[str]]] = []
        self.refuses_clients = False
        self.url = ""

    def answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        """Answer a request."""
        self.requests[handler.path] += 1
        if handler.path.startswith("/.well-known/oauth-protected-resource"):
            send_json(handler, {"resource": f"{self.url}/mcp", "authorization_servers": [self.url]}, 200)
        elif handler.path.startswith("/.well-known/oauth-authorization-server"):
            found = {"issuer": self.url, "token_endpoint": f"{self.url}/token", "response_types_supported": ["code"]}
            send_json(handler, found | {"authorization_endpoint": f"{self.url}/authorize"}, 200)
        elif handler.path == "/token":
            self.forms.append(parse_qs(body.decode()))
            if self.refuses_clients:
                send_json(handler, {"error": "invalid_client"}, 401)
                return
            self.issued += 1
            self.valid = {f"client-token-{self.issued}": "client"}
            token = {"access_token": f"client-token-{self.issued}", "token_type": "Bearer", "expires_in": 3600}
            send_json(handler, token, 200)
        elif handler.path == "/mcp":
            self._serve(handler, json.loads(body or b"{}"))
        else:
            send_json(handler, {}, 404)

    def _serve(self, handler: BaseHTTPRequestHandler, request: Any) -> None:
        whose = self.valid.get((handler.headers["Authorization"] or "").removeprefix("Bearer "))
        if whose is None:
            metadata = f"{self.url}/.well-known/oauth-protected-resource/mcp"
            send_json(handler, {}, 401, {"WWW-Authenticate": f'Bearer resource_metadata="{metadata}"'})
        elif "id" not in request:
            send_json(handler, {}, 202)
        else:
            result: dict[str, Any] = {}
            match request["method"]:
                case "initialize":
                    result = INITIALIZED
                case "tools/list":
                    result = {"tools": [{"name": "who"}]}
                case "tools/call":
                    result = {"content": [{"type": "text", "text": whose}]}
                case _:
                    pass
            respond(handler, request, result)


@pytest.fixture
def provider() -> Iterator[Provider]:
    """Yield a provider that serves."""
    found = Provider()
    with serving(found.answer) as found.url:
        yield found


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a module of the operator's."""
    module = ModuleType("operators_tokens")
    monkeypatch.setitem(sys.modules, "operators_tokens", module)
    return module


@pytest.fixture
def prefix() -> str:
    """Return a prefix that no other test has."""
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def store(valkey: ValkeyServer, prefix: str) -> RedisTokenStore:
    """Return what workers share."""
    return RedisTokenStore(valkey.url, Keys(prefix))


@contextmanager
def workers(url: str, store: RedisTokenStore, count: int = 1) -> Iterator[list[McpServers]]:
    """Yield the adapters of some workers."""
    made = [
        McpServers((url,), ("CLIENT_ID", "CLIENT_SECRET"), tokens=store, get_token="operators_tokens:get_token")
        for _ in range(count)
    ]
    try:
        yield made
    finally:
        for one in made:
            one.close()


def declared(provider: Provider, auth: Any) -> McpServer:
    fields = {"url": f"{provider.url}/mcp", "auth": auth, "connect_timeout": 30, "timeout": 30}
    return McpServer.model_validate(fields)


def who(worker: McpServers, server: McpServer, owner: TaskOwner = TaskOwner()) -> Any:  # noqa: B008 - immutable
    return worker.call(server, "who", {}, "k", never, owner)[0]


def test_a_rotated_credential_works_without_a_restart(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"url": f"{provider.url}/mcp", "headers": {"Authorization": {"credential": "shop"}}, "connect_timeout": 30}
    server, function = McpServer.model_validate(fields), f"{tenant_credentials.__name__}:find"
    values = {("acme", "shop"): "Bearer canary-1"}
    monkeypatch.setattr(tenant_credentials, "VALUES", values)
    provider.valid = {"canary-1": "acme"}
    with closing(McpServers((provider.url,), credentials=Credentials(function))) as worker:
        assert who(worker, server, TaskOwner("acme")) == "acme"
        provider.valid = {"canary-2": "acme again"}
        with pytest.raises(UsageError) as refused:
            who(worker, server, TaskOwner("acme"))
        assert "canary" not in str(refused.value)
        values["acme", "shop"] = "Bearer canary-2"
        assert who(worker, server, TaskOwner("acme")) == "acme again"


def test_workers_share_the_token_of_a_client(
    provider: Provider, store: RedisTokenStore, monkeypatch: pytest.MonkeyPatch, valkey: ValkeyServer, prefix: str
) -> None:
    monkeypatch.setenv("CLIENT_ID", "the-client")
    monkeypatch.setenv("CLIENT_SECRET", SECRET)
    auth = {"issuer": provider.url, "client_id": "CLIENT_ID", "client_secret": "CLIENT_SECRET", "scope": "tea"}
    server = declared(provider, auth)
    with workers(provider.url, store, 4) as made, ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda worker: who(worker, server), made)) == ["client"] * 4
        assert provider.issued == 1
        provider.valid = {}
        assert list(pool.map(lambda worker: who(worker, server), made)) == ["client"] * 4
        assert provider.issued == 2
    assert [form["grant_type"] for form in provider.forms] == [["client_credentials"]] * 2
    assert provider.forms[0]["scope"] == ["tea"]
    with connect(valkey.url) as client:
        stored = [client.get(key) for key in cast(list[str], client.keys(f"{prefix}:mcp-token:*"))]
    assert len(stored) == 1
    assert "client-token" not in str(stored)


def test_a_client_that_is_refused_is_an_error_with_the_cause(
    provider: Provider, store: RedisTokenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLIENT_ID", "the-client")
    monkeypatch.setenv("CLIENT_SECRET", SECRET)
    provider.refuses_clients = True
    server = declared(provider, {"issuer": provider.url, "client_id": "CLIENT_ID", "client_secret": "CLIENT_SECRET"})
    with workers(provider.url, store) as (worker,), pytest.raises(UsageError) as raised:
        who(worker, server)
    assert "gives no token for its client" in str(raised.value)
    assert "invalid_client" in str(raised.value)
    assert SECRET not in str(raised.value)


def test_a_task_gets_the_token_of_its_own_user(provider: Provider, store: RedisTokenStore, functions: Any) -> None:
    asked: list[dict[str, Any]] = []

    def get_token(**known: Any) -> str | None:
        asked.append(known)
        return None if known["user"] == "eve" else f"{known['tenant']}-{known['user']}"

    functions.get_token = get_token
    provider.valid = {"a-ann": "ann", "a-bob": "bob", "b-ann": "other ann"}
    server = declared(provider, "user")
    with workers(provider.url, store) as (worker,):
        owners = [TaskOwner("a", "ann"), TaskOwner("a", "bob"), TaskOwner("b", "ann"), TaskOwner("a", "ann")]
        assert [who(worker, server, owner) for owner in owners] == ["ann", "bob", "other ann", "ann"]
        assert asked[0] == {"url": server.url, "tenant": "a", "user": "ann", "refresh": False}
        assert len(asked) == 3
        with pytest.raises(UsageError, match="has no token for tenant 'a' and user 'eve': the user must sign in"):
            who(worker, server, TaskOwner("a", "eve"))
        with pytest.raises(UsageError, match="the task has none: submit it with a caller"):
            who(worker, server, TaskOwner("a"))


def test_one_worker_refreshes_the_token_of_a_tenant(provider: Provider, store: RedisTokenStore, functions: Any) -> None:
    refreshed: list[str] = []
    current = ["old"]

    def get_token(refresh: bool, **known: Any) -> str:
        if refresh:
            refreshed.append(known["tenant"])
            current[0] = "new"
            provider.valid = {"new": "tenant"}
        return f"Bearer {current[0]}\n"  # as functions that read a file return it

    functions.get_token = get_token
    server = declared(provider, "tenant")
    with workers(provider.url, store, 4) as made, ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda worker: who(worker, server, TaskOwner("a", "ann")), made)) == ["tenant"] * 4
    assert refreshed == ["a"]


def test_a_token_that_is_refused_twice_is_an_error_with_the_remedy(
    provider: Provider, store: RedisTokenStore, functions: Any
) -> None:
    asked: list[bool] = []

    def get_token(refresh: bool, **known: Any) -> str:
        asked.append(refresh)
        return "never-valid"

    functions.get_token = get_token
    with workers(provider.url, store) as (worker,), pytest.raises(UsageError) as raised:
        who(worker, declared(provider, "tenant"), TaskOwner("a"))
    assert asked == [False, False, True]
    assert "HTTP status 401" in str(raised.value)
    assert "for `auth: user` the user must sign in again" in str(raised.value)
    assert "never-valid" not in str(raised.value)


def test_an_issuer_must_be_allowed(provider: Provider, store: RedisTokenStore) -> None:
    auth = {"issuer": "https://evil.example", "client_id": "CLIENT_ID", "client_secret": "CLIENT_SECRET"}
    with workers(provider.url, store) as (worker,), pytest.raises(UsageError, match=r"issuer .* is not allowed"):
        who(worker, declared(provider, auth))
    auth = {"issuer": provider.url, "client_id": "OTHER", "client_secret": "CLIENT_SECRET"}
    with workers(provider.url, store) as (worker,), pytest.raises(UsageError, match="must not get variable OTHER"):
        who(worker, declared(provider, auth))
