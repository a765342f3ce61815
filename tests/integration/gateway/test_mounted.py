"""The gateway in an application of a shop, as the guide shows it, and its end at SIGTERM."""

import asyncio
import runpy
import signal
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from roboco.gateway.closing import set_at_signals
from tests.support.documents import example


def test_the_guides_application_serves_the_gateway_below_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROBOCO_WORKSPACE", f"file://{tmp_path}/workspace")
    monkeypatch.setenv("ROBOCO_GATEWAY_COOKIE_SECRET", "a" * 32)
    monkeypatch.setenv("ROBOCO_GATEWAY_LIMITS", "requests_per_minute=0,bytes_per_minute=0")
    (tmp_path / "mounted_gateway.py").write_text(example("file", "mounted_gateway.py"))
    shop = runpy.run_path(str(tmp_path / "mounted_gateway.py"))
    gateway = shop["gateway"].state.gateway
    key = gateway.orchestrator.operator.create_key(name="test").text
    with TestClient(shop["shop"], base_url="http://localhost") as client:
        assert client.get("/roboco/healthz").status_code == 200
        assert client.get("/roboco/v1/me").status_code == 401
        assert client.get("/roboco/v1/me", headers={"x-api-key": key}).status_code == 200
        assert client.post("/roboco/v1/sign-in", json={"key": key}).status_code == 200
        assert client.get("/roboco/v1/me").json()["by"].startswith("key:")
        assert not gateway.closing.is_set()
    assert gateway.closing.is_set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_sets_the_event_and_reaches_the_servers_handler(number: signal.Signals) -> None:
    received: list[int] = []
    before = signal.signal(number, lambda got, _: received.append(got))

    async def work() -> None:
        closing = asyncio.Event()
        with set_at_signals(closing):
            signal.raise_signal(number)
            async with asyncio.timeout(60):
                await closing.wait()
        assert received == [number]
        signal.raise_signal(number)
        assert received == [number, number]

    try:
        asyncio.run(work())
    finally:
        signal.signal(number, before)
