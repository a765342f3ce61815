"""Keys, cookies, limits and log lines of a gateway over the ports in memory."""

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from roboco import Settings
from roboco.client.orchestrator import Orchestrator
from roboco.domain.access_key import CallerLimits
from roboco.gateway import access, key_cache
from roboco.gateway.access import Caller
from roboco.gateway.principal import Scope
from roboco.gateway.request_log import SECURITY_HEADERS
from roboco.gateway.settings import GatewaySettings
from roboco.local.valkey import ValkeyServer
from tests.support.gateway_auth import HERE, SECRET, AuthWorld, auth_world


@pytest.fixture
def world(tmp_path: Path, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[AuthWorld]:
    """Yield a gateway at which browsers can sign in, with a route that reads its body."""
    monkeypatch.setattr(access, "MAX_BODY", 2000)
    with auth_world(tmp_path, {"redis_url": valkey.url}, cookie_secret=(SECRET,)) as made:
        made.app.add_api_route("/v1/echo/{task_id}", _echo, methods=["POST"])
        made.app.add_api_route("/v1/broken", _broken, methods=["POST"])
        yield made


async def _echo(task_id: str, caller: Caller, body: dict[str, Any]) -> dict[str, Any]:
    caller.require(Scope.CONTROL)
    return {"task": caller.task_id(task_id), "size": len(str(body))}


async def _broken(caller: Caller) -> None:
    raise RuntimeError("secret of the process")


def same_page(**headers: str) -> dict[str, str]:
    """Return the headers of a request that a page of the gateway makes."""
    return {"sec-fetch-site": "same-origin", "origin": HERE} | headers


@pytest.mark.parametrize("change", ["secret", "id", "length", "none", "revoked", "expired"])
def test_all_wrong_keys_get_the_same_answer(world: AuthWorld, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_cache, "FRESH_SECONDS", -1.0)
    text = world.key(expires_at=datetime.now(UTC) + timedelta(seconds=3600))
    key_id = text.split("_")[1]
    if change == "revoked":
        assert world.me(text).status_code == 200
        world.orchestrator.operator.revoke_key(key_id)
    if change == "expired":
        path = f"_keys/{key_id}.json"
        stored = json.loads(world.world.files.get(path) or b"")
        world.world.files.put(path, json.dumps(stored | {"expires_at": "2020-01-01T00:00:00Z"}).encode())
    wrong = {
        "secret": text[:-1] + ("0" if text[-1] != "0" else "1"),
        "id": text.replace(key_id, "0" * len(key_id)),
        "length": text[:-40],
        "none": "",
    }
    answer = world.me(wrong.get(change, text) or None)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["detail"] == "the request has no valid key"


def test_only_the_digest_is_stored_and_a_record_of_another_id_is_refused(world: AuthWorld) -> None:
    text = world.key()
    _, key_id, secret = text.split("_")
    stored = world.world.files.get(f"_keys/{key_id}.json") or b""
    assert secret.encode() not in stored
    world.world.files.put("_keys/aaaaaaaaaaaa.json", stored)
    answer = world.me(text.replace(key_id, "a" * 12))
    assert answer.status_code == 500
    assert answer.json()["code"] == "corrupt_history"


def test_a_browser_signs_in_and_out(world: AuthWorld) -> None:
    text = world.key(tenant="acme")
    answer = world.client.post("/v1/sign-in", json={"key": text}, headers=same_page())
    assert answer.status_code == 200
    cookie = answer.headers["set-cookie"]
    assert text.split("_")[2] not in cookie
    assert "HttpOnly; SameSite=Strict" in cookie
    assert world.me().json()["tenant"] == "acme"
    assert world.client.post("/v1/echo/t1", json={}).status_code == 403  # no proof of its origin
    assert world.client.post("/v1/echo/t1", json={}, headers=same_page()).json()["task"] == "acme:t1"
    assert world.me(None, **{"sec-fetch-site": "cross-site"}).status_code == 403
    assert world.me(None, **{"sec-fetch-site": "same-site", "origin": "http://localhost:3000"}).status_code == 403
    assert world.client.post("/v1/sign-out", headers=same_page()).status_code == 204
    assert world.me().status_code == 401


def test_sign_in_is_refused_for_other_pages_wrong_keys_and_long_bodies(world: AuthWorld) -> None:
    text = world.key()
    cross = {"origin": "https://evil.example"}
    assert world.client.post("/v1/sign-in", json={"key": text}, headers=cross).status_code == 403
    assert world.client.post("/v1/sign-in", json={"key": text[:-1]}).status_code == 401
    long = world.client.post("/v1/sign-in", json={"key": "x" * 5000})
    assert long.status_code in (413, 422)
    assert "xxx" not in long.text


def test_no_body_is_read_without_a_caller(world: AuthWorld) -> None:
    pulled = 0

    def body() -> Iterator[bytes]:
        nonlocal pulled
        for _ in range(100):
            pulled += 1
            yield b"x" * 1000

    assert world.client.post("/v1/echo/t1", content=body()).status_code == 401
    assert world.me(world.key()).status_code == 200


def test_another_tenants_id_is_unknown(world: AuthWorld) -> None:
    headers = {"authorization": f"Bearer {world.key(tenant='acme')}"}
    for task_id in ("other:t1", "acme:x:t1", "Acme:t1", ":t1"):
        answer = world.client.post(f"/v1/echo/{task_id}", json={}, headers=headers)
        assert answer.status_code == 404, task_id


def test_requests_beyond_the_limit_get_429_with_the_time_to_wait(world: AuthWorld) -> None:
    text = world.key(limits={"requests_per_minute": 2})
    assert world.me(text).headers["ratelimit"] == '"requests";r=1;t=30'
    assert world.me(text).headers["ratelimit-policy"] == '"requests";q=2;w=60'
    refused = world.me(text)
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "30"
    assert refused.json()["code"] == "rate_limited"
    assert refused.json()["limit"] == "requests_per_minute"
    assert world.me(world.key()).status_code == 200


def test_if_redis_does_not_answer_requests_get_503_and_health_lives(
    world: AuthWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = world.key(limits={"requests_per_minute": 2})
    lost = Orchestrator(Settings(redis_url="redis://127.0.0.1:1/0"))
    monkeypatch.setattr(world.gateway.limits, "_accounts", lost.caller_limits)
    answer = world.me(text)
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    assert world.client.get("/healthz").status_code == 200
    assert world.client.get("/readyz").status_code == 200


def test_a_key_cannot_raise_the_limits_of_the_settings(tmp_path: Path, valkey: ValkeyServer) -> None:
    with auth_world(tmp_path, {"redis_url": valkey.url}, limits="requests_per_minute=10,max_tokens=0") as world:
        limits = world.me(world.key(limits={"requests_per_minute": 50, "max_tokens": 7})).json()["limits"]
        assert limits["requests_per_minute"] == 10
        assert limits["max_tokens"] == 7
    assert GatewaySettings().tenant_limits == CallerLimits(open_tasks=20_000, open_bytes=256 * 1024 * 1024)


@pytest.mark.parametrize("given", ["", "a" * 65, "a b", "ä", "x\ty"])
def test_a_malformed_request_id_is_replaced(world: AuthWorld, given: str) -> None:
    found = world.client.get("/healthz", headers={b"x-request-id": given.encode()}).headers["x-request-id"]
    assert found != given
    assert len(found) == 32


def test_each_response_has_the_request_id_and_security_headers(world: AuthWorld) -> None:
    answers = [
        world.client.get("/v1/me", headers={"x-request-id": "abc.1"}),
        world.client.get("/nowhere", headers={"x-request-id": "abc.1"}),
        world.client.post("/v1/broken", headers={"x-request-id": "abc.1", "x-api-key": world.key()}),
    ]
    assert [answer.status_code for answer in answers] == [401, 404, 500]
    for answer in answers:
        assert answer.headers["x-request-id"] == "abc.1"
        for name, value in SECURITY_HEADERS.items():
            assert answer.headers[name] == value
        assert "secret of the process" not in answer.text


def test_the_logs_name_the_caller_and_hold_no_secret(world: AuthWorld, caplog: pytest.LogCaptureFixture) -> None:
    text = world.key(tenant="acme", scopes=("read", "control"))
    by = f"key:{text.split('_')[1]}"
    with caplog.at_level(logging.INFO):
        headers = {"authorization": f"Bearer {text}", "x-request-id": "r1"}
        world.client.post(f"/v1/echo/t1%0a?token={text}", json={"secret": "body"}, headers=headers)
        world.client.post("/v1/sign-in", json={"key": text})
        world.client.post("/v1/sign-in", json={"key": text[:-1]})
    lines = {name: [json.loads(one.message) for one in caplog.records if one.name == name] for name in LOGGERS}
    written, signed_in, refused = lines["roboco.audit"]
    assert written | {"time": 0} == {
        "time": 0,
        "request": "r1",
        "by": by,
        "tenant": "acme",
        "action": "_echo",
        "task": "t1\n",
        "created": None,
        "path": "/v1/echo/t1\n",
        "status": 404,
        "outcome": "refused",
    }
    assert (signed_in["by"], signed_in["action"], signed_in["outcome"]) == (by, "sign_in", "accepted")
    assert (refused["by"], refused["outcome"]) == (None, "refused")
    assert [line["status"] for line in lines["roboco.access"]] == [404, 200, 401]
    logged = json.dumps(lines)
    assert text.split("_")[2] not in logged
    assert "secret" not in logged


LOGGERS = ("roboco.audit", "roboco.access")


def test_without_authentication_only_this_machine_is_served(tmp_path: Path) -> None:
    with auth_world(tmp_path, authentication=False, allowed_hosts=("gw.example",)) as world:
        assert world.me().json()["by"] == "local"
        assert world.me(None, host="127.0.0.1:8080").status_code == 200
        assert world.me(None, host="gw.example").status_code == 200
        assert world.me(None, host="evil.example").status_code == 403
        assert world.me(None, origin="http://localhost:3000").status_code == 403
        assert world.me(None, origin=HERE).status_code == 200
        assert world.client.get("/healthz", headers={"host": "10.0.0.1"}).status_code == 200
