"""Async controls: thin layers on a bounded thread pool, beside the methods that block."""

import asyncio
import inspect
import threading
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path

import pytest

from roboco import Orchestrator, Receipt, Settings, Task, UsageError
from roboco.client.in_thread import MAX_THREADS, in_thread

CONTROLS = ("send", "interrupt", "stop", "pause", "step", "resume", "answer", "approve", "deny", "resolve", "receipt")
READS = ("summary", "history", "session", "delta", "result", "text", "stream", "artifacts", "artifact", "upload")

REQUEST = ContextVar("REQUEST", default="none")


class Caller:
    """A task that records the threads that call it."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.running = 0
        self.max_running = 0
        self.go = threading.Event()
        self.counting = threading.Lock()

    def add(self, a: int, b: int = 1) -> int:
        """Add two numbers."""
        self.threads.append(threading.current_thread().name)
        return a + b

    def fail(self) -> None:
        """Fail."""
        raise UsageError("wrong")

    def block(self) -> None:
        """Wait."""
        with self.counting:
            self.running += 1
            self.max_running = max(self.max_running, self.running)
        assert self.go.wait(60)
        with self.counting:
            self.running -= 1

    aadd = in_thread(add)
    afail = in_thread(fail)
    ablock = in_thread(block)


def test_async_form_has_the_same_arguments_result_and_errors() -> None:
    caller = Caller()
    assert asyncio.run(caller.aadd(1, b=2)) == 3
    assert caller.threads != [threading.current_thread().name]
    with pytest.raises(UsageError, match="wrong"):
        asyncio.run(caller.afail())


def test_a_call_sees_the_context_variables_of_its_caller_and_changes_none() -> None:
    class Request:
        def read(self) -> str:
            """Return the current request, and set another one."""
            seen = REQUEST.get()
            REQUEST.set("of the thread")
            return seen

        aread = in_thread(read)

    async def handle(name: str) -> tuple[str, str]:
        REQUEST.set(name)
        return await Request().aread(), REQUEST.get()

    async def handle_several() -> list[tuple[str, str]]:
        return await asyncio.gather(*map(handle, names))

    names = [f"request {number}" for number in range(2 * MAX_THREADS)]
    assert asyncio.run(handle_several()) == [(name, name) for name in names]


def test_calls_of_a_process_share_a_bounded_pool_and_do_not_block_the_loop() -> None:
    caller = Caller()

    async def call_together() -> None:
        calls = [asyncio.create_task(caller.ablock()) for _ in range(3 * MAX_THREADS)]
        while caller.running < MAX_THREADS:
            await asyncio.sleep(0.001)
        caller.go.set()
        await asyncio.gather(*calls)

    asyncio.run(call_together())
    assert caller.max_running == MAX_THREADS


@pytest.mark.parametrize("name", [*CONTROLS, *READS, "fork", "set_limits"])
def test_task_has_an_async_form_of_each_method_beside_it(name: str) -> None:
    assert callable(getattr(Task, name))
    assert inspect.getdoc(inspect.getattr_static(Task, f"a{name}")), "documented"


@pytest.mark.parametrize("name", ["run", "task", "upload"])
def test_orchestrator_has_an_async_form_of_each_method_for_services(name: str) -> None:
    assert isinstance(inspect.getattr_static(Orchestrator, f"a{name}"), in_thread)


@pytest.mark.parametrize("control", ["astop", "ainterrupt"])
def test_waiting_for_an_effect_occupies_no_thread(
    control: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    effects: set[str] = set()

    def accept(self: Task, name: str, item_id: str | None, arguments: object) -> Receipt:
        return Receipt(str(item_id), now)

    def receipt(self: Task, item_id: str) -> Receipt:
        return Receipt(item_id, now, applied_at_seq=1 if effects else None)

    def send(self: Task, message: str) -> Receipt:
        effects.add(message)
        return Receipt("sent", now)

    monkeypatch.setattr(Task, "_accept", accept)
    monkeypatch.setattr(Task, "receipt", receipt)
    monkeypatch.setattr(Task, "send", send)

    async def call_together(task: Task) -> list[Receipt]:
        controls = [getattr(task, control)("now", item_id=str(number), timeout=60) for number in range(2 * MAX_THREADS)]
        waiting = [asyncio.ensure_future(one) for one in controls]
        await asyncio.sleep(0.1)
        await asyncio.wait_for(task.asend("hello"), 60)
        return list(await asyncio.gather(*waiting))

    with Orchestrator(Settings(workspace=tmp_path.as_uri(), redis_url="redis://127.0.0.1:1/0")) as orchestrator:
        receipts = asyncio.run(call_together(orchestrator._task("t")))
    assert [one.applied_at_seq for one in receipts] == [1] * (2 * MAX_THREADS)


@pytest.mark.parametrize("reading", ["history", "upload"])
def test_blocked_reads_and_uploads_do_not_delay_controls(
    reading: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A slow store holds every thread that reads, or that stores files, and callers wait in line behind them."""
    go = threading.Event()
    sent: list[str] = []
    held: list[int] = []

    def block(self: Task, *_: object) -> None:
        held.append(1)
        assert go.wait(60)

    def accept(self: Task, name: str, item_id: str | None, arguments: object) -> Receipt:
        sent.append(name.removeprefix("roboco."))
        return Receipt("i", datetime.now(UTC))

    def receipt(self: Task, item_id: str) -> Receipt:
        return Receipt(item_id, datetime.now(UTC), applied_at_seq=1)

    for name, method in ((reading, block), ("_accept", accept), ("receipt", receipt)):
        monkeypatch.setattr(Task, name, method)

    async def control(task: Task) -> None:
        arguments = [tmp_path] if reading == "upload" else []
        blocked = [asyncio.create_task(getattr(task, f"a{reading}")(*arguments)) for _ in range(2 * MAX_THREADS)]
        while len(held) < MAX_THREADS:
            await asyncio.sleep(0.001)
        async with asyncio.timeout(60):
            assert (await task.astop(timeout=10)).applied_at_seq == 1
            assert (await task.ainterrupt(timeout=10)).applied_at_seq == 1
            await asyncio.gather(task.asend("more"), task.apause(), task.astep(), task.aresume(), task.areceipt("i"))
            await asyncio.gather(task.aanswer("c", 1), task.aapprove("c"), task.adeny("c"), task.aresolve("c", True))
            await task.aset_limits(max_steps=9)
        assert len(held) == MAX_THREADS
        go.set()
        await asyncio.gather(*blocked)

    with Orchestrator(Settings(workspace=tmp_path.as_uri(), redis_url="redis://127.0.0.1:1/0")) as orchestrator:
        asyncio.run(control(orchestrator._task("t")))
    kinds = (
        "stop",
        "interrupt",
        "send",
        "pause",
        "step",
        "resume",
        "answer",
        "approve",
        "deny",
        "resolve",
        "set_limits",
    )
    assert sorted(sent) == sorted(kinds)


def test_a_wrong_submission_fails_in_the_loop_as_in_a_thread(tmp_path: Path) -> None:
    settings = Settings(workspace=tmp_path.as_uri(), redis_url="redis://127.0.0.1:1/0")
    with Orchestrator(settings) as orchestrator, pytest.raises(UsageError, match=r"none\.yaml"):
        asyncio.run(orchestrator.arun("none.yaml", "hello"))
