"""MCP servers that are real processes, over stdio and over streamable HTTP."""

import hashlib
import logging
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from roboco.domain.team.mcp_server import McpServer
from roboco.errors import UsageError
from roboco.local.process import free_port
from roboco.ports.tools import TaskOwner
from roboco.process.credentials import Credentials
from roboco.tools.mcp.servers import check_allowed
from tests.support import tenant_credentials
from tests.support.mcp_servers import (
    TOOLS,
    call,
    declare_server,
    listed,
    never,
    open_servers,
    run_http_server,
    wait_until,
)

pytestmark = pytest.mark.slow

SECRET = "Bearer secret-of-the-shop"


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    """Yield the address of the shop, a server that the tests of this file share."""
    port = free_port()
    with run_http_server(port):
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.fixture(params=["stdio", "http"])
def shop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> McpServer:
    """Return the server of the shop, over stdio and over HTTP."""
    monkeypatch.setenv("SHOP_TOKEN", SECRET)
    if request.param == "stdio":
        return declare_server(env=["SHOP_TOKEN"], timeout=20)
    return declare_server(url=request.getfixturevalue("web"), headers={"Authorization": "SHOP_TOKEN"}, timeout=20)


def test_tools_are_listed_with_description_schema_and_effect(shop: McpServer, caplog: pytest.LogCaptureFixture) -> None:
    with open_servers(shop) as servers:
        tools = listed(servers, shop)
    assert "MCP server" not in caplog.text, "an ordinary end is not logged"
    assert list(tools) == TOOLS
    assert tools["search"].description == "Find articles."
    assert tools["search"].input_schema["required"] == ["query"]
    assert [tools[name].effect for name in ("search", "reserve", "buy")] == ["pure", "idempotent", "irreversible"]


def test_settings_of_the_team_override_the_server(shop: McpServer) -> None:
    settings = {"buy": {"effect": "pure"}, "search": {"description": "Look."}, "missing": {}}
    server = McpServer.model_validate(shop.model_dump() | {"tools": settings})
    with open_servers(server) as servers:
        tools = listed(servers, server)
        assert {name: tool.effect for name, tool in tools.items()} == {"buy": "pure", "search": "pure"}
        assert tools["search"].description == "Look."


def test_calls_return_structured_content_texts_images_and_errors(shop: McpServer) -> None:
    with open_servers(shop) as servers:
        found = call(servers, shop, "search", {"query": "tea", "limit": 1})
        assert found == {"query": "tea", "found": ["article 0"]}
        assert call(servers, shop, "buy", {"article": "tea"}, "key 7") == "bought tea with key key 7"
        (text, image), (media,) = servers.call(shop, "picture", {}, "k", never)
        assert (text, image) == ({"type": "text", "text": "a dot"}, {"type": "image", "mime_type": "image/png"})
        assert (media.part, media.data) == (1, b"\x89PNG dot")
        with pytest.raises(UsageError, match="no tea left"):
            call(servers, shop, "fail", {"text": "no tea left"})
        with pytest.raises(UsageError, match="Field required"):
            call(servers, shop, "search", {})


def test_a_secret_reaches_the_server_and_no_output(shop: McpServer, caplog: pytest.LogCaptureFixture) -> None:
    with open_servers(shop) as servers, caplog.at_level(logging.DEBUG):
        answer = call(servers, shop, "who", {})
        assert answer.startswith(hashlib.sha256(SECRET.encode()).hexdigest())
        if shop.command is not None:
            assert (
                {"HOME", "PATH", "SHOP_TOKEN"} <= set(answer.split()[1:]) <= {"HOME", "LC_CTYPE", "PATH", "SHOP_TOKEN"}
            )
        with pytest.raises(UsageError, match=r"refused \*\*\*") as raised:
            call(servers, shop, "leak", {})
    assert "secret-of-the-shop" not in str(raised.value) + caplog.text + shop.cache_key + shop.location


@pytest.mark.parametrize("kind", ["stdio", "http"])
def test_a_server_gets_the_credential_of_the_tasks_tenant(
    kind: str, web: str, caplog: pytest.LogCaptureFixture
) -> None:
    credential = {"credential": "crm"}
    fields = (
        {"env": {"SHOP_TOKEN": credential}}
        if kind == "stdio"
        else {"url": web, "headers": {"Authorization": credential}}
    )
    server = declare_server(**fields)
    credentials = Credentials(f"{tenant_credentials.__name__}:find")
    with open_servers(server, credentials=credentials) as servers, caplog.at_level(logging.DEBUG):
        for tenant in ("acme", "globex", "acme"):
            answer, _ = servers.call(server, "who", {}, "k", never, TaskOwner(tenant, "a user"))
            assert answer.startswith(hashlib.sha256(f"canary-crm-of-{tenant}".encode()).hexdigest())
        with pytest.raises(UsageError, match=r"refused \*\*\*") as leaked:
            servers.call(server, "leak", {}, "k", never, TaskOwner("acme"))
        with pytest.raises(UsageError, match="credential 'crm' of tenant 'initech': its function raised KeyError"):
            servers.call(server, "who", {}, "k", never, TaskOwner("initech"))
    assert "canary" not in str(leaked.value) + caplog.text + server.cache_key + server.location


def test_a_variable_of_a_server_needs_the_operators_permission_whatever_its_value() -> None:
    server = declare_server(env={"LD_PRELOAD": {"credential": "crm"}})
    with pytest.raises(UsageError, match="must not get variable LD_PRELOAD"):
        check_allowed(server, (shlex.join(server.command or ()),), ())


def test_a_cancelled_call_ends_at_once(shop: McpServer, tmp_path: Path) -> None:
    mark = tmp_path / "started"
    with open_servers(shop) as servers:
        with pytest.raises(UsageError, match="cancelled"):
            servers.call(shop, "slow", {"seconds": 300, "started": str(mark)}, "k", mark.exists)
        assert call(servers, shop, "reserve", {"article": "tea"}) == "reserved tea"


def test_a_call_fails_if_its_server_is_killed_and_the_next_restarts_it(tmp_path: Path) -> None:
    server = declare_server()
    mark = tmp_path / "started"

    def kill() -> None:
        wait_until(lambda: mark.exists() and mark.read_text() != "")
        os.kill(int(mark.read_text()), signal.SIGKILL)

    with open_servers(server) as servers:
        killer = threading.Thread(target=kill)
        killer.start()
        cause = "its process ended because of signal SIGKILL"
        with pytest.raises(UsageError, match=rf"lost \({cause}\); whether it had an effect is not known"):
            call(servers, server, "slow", {"seconds": 30, "started": str(mark)})
        killer.join()
        assert call(servers, server, "reserve", {"article": "tea"}) == "reserved tea"


def test_a_call_fails_if_its_web_server_is_killed_and_the_next_reconnects(tmp_path: Path) -> None:
    port = free_port()
    server = declare_server(url=f"http://127.0.0.1:{port}/mcp", timeout=20)
    mark = tmp_path / "started"
    with open_servers(server) as servers, ThreadPoolExecutor(1) as pool:
        with run_http_server(port) as process:
            pending = pool.submit(servers.call, server, "slow", {"seconds": 30, "started": str(mark)}, "k", never)
            wait_until(mark.exists)
            process.kill()
            with pytest.raises(UsageError, match=r"lost|did not complete"):
                pending.result()
        with run_http_server(port):
            assert call(servers, server, "reserve", {"article": "tea"}) == "reserved tea"


def test_a_missing_extra_is_named_by_the_first_use() -> None:
    script = (
        "import sys; sys.modules['mcp'] = None\n"
        "from roboco.tools.mcp.servers import McpServers\n"
        "from roboco.domain.team.mcp_server import McpServer\n"
        "McpServers(('x',)).list_tools(McpServer.model_validate({'command': ['x'], 'tools': ['a']}), 'x_')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=180)
    assert "roboco.errors.UsageError: MCP servers need the extra 'roboco[mcp]'" in done.stderr
