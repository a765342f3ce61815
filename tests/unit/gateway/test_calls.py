"""CallLine: blocking calls in bounded threads, with a deadline."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from roboco.gateway.calls import OWNER, CallLine, Calls
from roboco.gateway.problem import Problem

SHORT_SECONDS, LONG_SECONDS = 0.05, 20.0


async def refused(line: CallLine) -> str:
    """Return the status and detail of a refusal of a call that does nothing, or "" if it is served."""
    try:
        await line.run(lambda: None)
    except Problem as problem:
        return f"{problem.status}: {problem.detail}" if "Retry-After" in problem.headers else "without Retry-After"
    return ""


async def held_by(line: CallLine, owner: str, call: Callable[[], object]) -> object:
    """Run a call of an owner."""
    OWNER.set(owner)
    return await line.run(call)


async def served_again(line: CallLine) -> None:
    """Wait until the line serves a call, and close it."""
    async with asyncio.timeout(LONG_SECONDS):
        while await refused(line):
            await asyncio.sleep(0.001)
    line.close()


def test_a_full_line_refuses_immediately_until_a_call_has_ended() -> None:
    """A call that hangs keeps its place after its deadline: the store has not answered yet."""
    go = threading.Event()

    async def serve() -> None:
        line = CallLine("read", 1, 0, SHORT_SECONDS)
        with pytest.raises(Problem, match="has not answered"):
            await line.run(go.wait, LONG_SECONDS)
        for _ in range(5):
            await asyncio.sleep(0)  # all callbacks of the ended request run
        assert await refused(line) == "503: too many read calls wait for a server that answers slowly"
        go.set()
        await served_again(line)

    asyncio.run(serve())


def test_a_call_that_has_not_begun_at_its_deadline_never_begins() -> None:
    go, begun = threading.Event(), threading.Event()

    async def serve() -> None:
        line = CallLine("control", 1, 1, SHORT_SECONDS)
        hanging = asyncio.create_task(line.run(go.wait, LONG_SECONDS))
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="has not answered"):
            await line.run(begun.set)
        with pytest.raises(Problem, match="has not answered"):
            await hanging
        go.set()
        await served_again(line)

    asyncio.run(serve())
    assert not begun.is_set()


def test_a_request_that_has_gone_leaves_its_place_when_its_call_ends() -> None:
    go = threading.Event()

    async def serve() -> None:
        line = CallLine("read", 1, 0, LONG_SECONDS)
        gone = asyncio.create_task(line.run(go.wait, LONG_SECONDS))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert await refused(line)
        go.set()
        await served_again(line)

    asyncio.run(serve())


def test_slow_uploads_of_one_owner_leave_half_of_the_threads_to_others() -> None:
    go = threading.Event()

    async def serve() -> None:
        calls = Calls(LONG_SECONDS)
        slow = [asyncio.create_task(held_by(calls.uploads, "acme", go.wait)) for _ in range(8)]
        await asyncio.sleep(0)
        with pytest.raises(Problem, match=r"503.*too many upload calls of this caller, or of its tenant"):
            await held_by(calls.uploads, "acme", go.wait)
        assert await asyncio.create_task(held_by(calls.uploads, "other", lambda: "served")) == "served"
        go.set()
        assert await asyncio.gather(*slow) == [True] * 8
        calls.close()

    asyncio.run(serve())
