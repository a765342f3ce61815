"""Async controls: thin layers on bounded thread pools, beside the methods that block."""

import asyncio
import threading
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path

import pytest

from roboco import Orchestrator, Receipt, Settings, Task, UsageError
from roboco.client.in_thread import MAX_THREADS, in_thread

REQUEST = ContextVar("REQUEST", default="none")


class Caller:
    """A task whose reads wait until they may go."""

    def __init__(self) -> None:
        self.running = self.max_running = 0
        self.go = threading.Event()
        self.counting = threading.Lock()

    def read(self, name: str) -> str:
        """Return the current request, and set another one."""
        with self.counting:
            self.running += 1
            self.max_running = max(self.max_running, self.running)
        assert self.go.wait(60)
        with self.counting:
            self.running -= 1
        seen = REQUEST.get()
        REQUEST.set("of the thread")
        if not name:
            raise UsageError("wrong")
        return seen

    aread = in_thread(read)


def test_calls_share_a_bounded_pool_with_the_context_of_their_callers_and_do_not_block_the_loop() -> None:
    caller = Caller()

    async def handle(name: str) -> tuple[str, str]:
        REQUEST.set(name)
        return await caller.aread(name=name), REQUEST.get()

    async def call_together() -> list[tuple[str, str]]:
        calls = [asyncio.create_task(handle(name)) for name in names]
        while caller.running < MAX_THREADS:
            await asyncio.sleep(0.001)
        caller.go.set()
        with pytest.raises(UsageError, match="wrong"):
            await caller.aread("")
        return await asyncio.gather(*calls)

    names = [f"request {number}" for number in range(3 * MAX_THREADS)]
    assert asyncio.run(call_together()) == [(name, name) for name in names]
    assert caller.max_running == MAX_THREADS


@pytest.mark.parametrize("reading", ["history", "upload", "wait"])
def test_slow_reads_uploads_and_waits_do_not_delay_controls(
    reading: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A slow store holds every thread that reads, or that stores files, and callers wait in line behind them."""
    go, now = threading.Event(), datetime.now(UTC)
    sent: list[str] = []
    held: list[int] = []

    def block(self: Task, *_: object) -> None:
        held.append(1)
        assert go.wait(60)

    def accept(self: Task, name: str, item_id: str | None, arguments: object) -> Receipt:
        sent.append(name.removeprefix("roboco."))
        return Receipt(item_id or "i", now)

    def receipt(self: Task, item_id: str) -> Receipt:
        held.extend([1] if item_id == "late" else [])
        return Receipt(item_id, now, applied_at_seq=None if item_id == "late" and not go.is_set() else 1)

    for name, method in ((reading, block), ("_accept", accept), ("receipt", receipt)):
        monkeypatch.setattr(Task, name, method, raising=False)

    async def control(task: Task) -> None:
        if reading == "wait":
            waits = [task.astop(item_id="late", timeout=60) for _ in range(2 * MAX_THREADS)]
        else:
            arguments = [tmp_path] if reading == "upload" else []
            waits = [getattr(task, f"a{reading}")(*arguments) for _ in range(2 * MAX_THREADS)]
        blocked = [asyncio.create_task(one) for one in waits]
        while len(held) < MAX_THREADS:
            await asyncio.sleep(0.001)
        sent.clear()
        async with asyncio.timeout(60):
            assert (await task.astop(timeout=10)).applied_at_seq == 1
            assert (await task.ainterrupt(timeout=10)).applied_at_seq == 1
            await asyncio.gather(task.asend("more"), task.apause(), task.astep(), task.aresume(), task.areceipt("i"))
            await asyncio.gather(task.aanswer("c", 1), task.aapprove("c"), task.adeny("c"), task.aresolve("c", True))
            await task.aset_limits(max_steps=9)
        assert not any(one.done() for one in blocked)
        go.set()
        await asyncio.gather(*blocked)

    with Orchestrator(Settings(workspace=tmp_path.as_uri(), redis_url="redis://127.0.0.1:1/0")) as orchestrator:
        asyncio.run(control(orchestrator._task("t")))
    kinds = "answer approve deny interrupt pause resolve resume send set_limits step stop"
    assert sorted(sent) == kinds.split()


def test_a_wrong_submission_fails_in_the_loop_as_in_a_thread(tmp_path: Path) -> None:
    settings = Settings(workspace=tmp_path.as_uri(), redis_url="redis://127.0.0.1:1/0")
    with Orchestrator(settings) as orchestrator, pytest.raises(UsageError, match=r"none\.yaml"):
        asyncio.run(orchestrator.arun("none.yaml", "hello"))
