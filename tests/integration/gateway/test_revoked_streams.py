"""A response that lasts ends when the key of its caller does."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from roboco.errors import TransientError
from roboco.gateway import access, key_cache
from roboco.gateway.access import AccessMiddleware
from roboco.gateway.openai.following import answer_while_connected
from roboco.gateway.principal import ACCESS
from roboco.gateway.problem import Problem
from tests.support.gateway_auth import AuthWorld, auth_world

PIECES = 50


async def pieces_until_the_end(world: AuthWorld, key: str, act: Callable[[], object]) -> int:
    """Return the number of pieces of an endless response that its client gets after `act`, at most PIECES."""
    sent = 0

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal sent
        await scope["roboco.access"].caller()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        act()
        while sent < PIECES:
            await send({"type": "http.response.body", "body": b"piece", "more_body": True})
            sent += 1
            await asyncio.sleep(0.01)

    async def ignore(_: Any) -> None:
        pass

    async def nothing() -> Any:
        await asyncio.Event().wait()

    headers = [(b"authorization", f"Bearer {key}".encode()), (b"host", b"localhost")]
    scope = {"type": "http", "method": "GET", "path": "/v1/x", "headers": headers}
    with suppress(Problem):
        await AccessMiddleware(endless, world.gateway)(scope, nothing, ignore)
    return sent


def test_an_answer_that_was_waited_for_needs_a_key_that_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "RECHECK_SECONDS", 0.0)
    monkeypatch.setattr(key_cache, "FRESH_SECONDS", -1.0)

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        async def work() -> str:
            if scope["path"] == "/v1/revoked":
                world.orchestrator.operator.revoke_key(key.split("_")[1])
            return "text"

        await scope[ACCESS].caller()
        answers.append(await answer_while_connected(Request(scope, receive, send), asyncio.Event(), work()))

    async def nothing() -> Any:
        await asyncio.Event().wait()

    async def ignore(_: Any) -> None:
        pass

    async def ask(path: str) -> None:
        headers = [(b"authorization", f"Bearer {key}".encode()), (b"host", b"localhost")]
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
        await AccessMiddleware(answer, world.gateway)(scope, nothing, ignore)

    answers: list[str] = []
    with auth_world(tmp_path) as world:
        key = world.key()
        assert world.client.portal is not None
        world.client.portal.call(ask, "/v1/x")
        with pytest.raises(Problem):
            world.client.portal.call(ask, "/v1/revoked")
    assert answers == ["text"]


@pytest.mark.parametrize("change", ["none", "revoked", "silent"])
def test_a_response_ends_when_its_key_is_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    monkeypatch.setattr(access, "RECHECK_SECONDS", 0.0)
    monkeypatch.setattr(key_cache, "FRESH_SECONDS", -1.0)

    def silent(_: str) -> None:
        raise TransientError("the store is silent")

    with auth_world(tmp_path) as world:
        key = world.key()
        act: Callable[[], object] = {
            "none": lambda: None,
            "revoked": lambda: world.orchestrator.operator.revoke_key(key.split("_")[1]),
            "silent": lambda: setattr(world.gateway.authenticator._keys, "_find", silent),
        }[change]
        assert world.client.portal is not None
        sent = world.client.portal.call(pieces_until_the_end, world, key, act)
        assert (sent < PIECES) == (change == "revoked")
