"""The client of the package fastmcp. With its extra `tasks` it follows each call as a task."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any

from fastmcp import Client
from fastmcp_tasks import ToolTask, call_tool_task
from rows import HELLO, LONG_TEXT, PLACE, answer_to, drive, endless, expect, hundred, kill_worker

URL = os.environ["OPENAI_BASE_URL"].replace("/openai/v1", "/mcp")
CLIENTS: list[Client] = []


async def _approve(_message: str, _kind: Any, _params: Any, _context: Any) -> dict[str, Any]:
    return {"approve": True}


async def _text(team: str, prompt: str) -> str:
    return str((await CLIENTS[0].call_tool(team, {"prompt": prompt})).data.text)


async def _plain() -> None:
    expect(await _text("desk", "Hello"), HELLO)


async def _structured() -> None:
    result = await CLIENTS[0].call_tool("typed", {"prompt": "warm, as JSON"})
    expect(result.structured_content["output"], PLACE)


async def _resume() -> None:
    """Cut the connection, and follow the task by another one."""
    task = await call_tool_task(CLIENTS[0], "desk", {"prompt": "a brisk one"})
    async with Client(URL) as other:
        expect((await ToolTask(other, "desk", task.create_result).result()).data.text, LONG_TEXT)


async def _approval() -> None:
    task = await call_tool_task(CLIENTS[0], "guarded", {"prompt": "add"})
    await task.wait(state="input_required")
    expect((await task.result()).data.text, "The result is 3.")


async def _failure() -> None:
    result = await CLIENTS[0].call_tool("desk", {"prompt": "fail"}, raise_on_error=False)
    expect((result.is_error, "the model refuses" in result.content[0].text), (True, True))


async def _cancel() -> None:
    task = await call_tool_task(CLIENTS[0], "desk", {"prompt": endless("fastmcp")})
    await task.wait(state="working")
    await task.cancel()
    expect((await task.wait()).status, "cancelled")


async def _killed_worker() -> None:
    task = await call_tool_task(CLIENTS[0], "desk", {"prompt": "a long one"})
    await asyncio.to_thread(kill_worker)
    expect((await task.result()).data.text, LONG_TEXT)


async def _hundred() -> None:
    async def one(prompt: str) -> None:
        expect(await _text("desk", prompt), answer_to(prompt))

    await asyncio.gather(*map(one, hundred("fastmcp")))


def run(row: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Return the row with a client."""

    async def connected() -> None:
        async with Client(URL, elicitation_handler=_approve) as client:
            CLIENTS[:] = [client]
            await row()

    return lambda: asyncio.run(connected())


drive(
    {
        "plain": run(_plain),
        "structured output": run(_structured),
        "resume": run(_resume),
        "approval": run(_approval),
        "failure": run(_failure),
        "cancel": run(_cancel),
        "killed worker": run(_killed_worker),
        "a hundred runs": run(_hundred),
    }
)
