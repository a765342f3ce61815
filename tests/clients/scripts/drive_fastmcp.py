"""The client of the package fastmcp. With fastmcp-tasks, which pins an older release of it, each call is a task."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from importlib.util import find_spec
from typing import Any

from fastmcp import Client
from rows import HELLO, LONG_TEXT, PLACE, answer_to, drive, endless, expect, hundred, kill_worker

URL = os.environ["OPENAI_BASE_URL"].replace("/openai/v1", "/mcp")
NAME = os.environ["MCP_NAME"]
CLIENTS: list[Client] = []
if find_spec("fastmcp_tasks"):
    from fastmcp_tasks import ToolTask, call_tool_task


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
    for team in ("guarded", "chief"):
        expect("The result is 3." in await _text(team, "add"), True)


async def _tools() -> None:
    """Two calls of one turn, each of which needs an approval, run at the same time."""
    expect(await _text("guarded", "add twice"), "The results are ['3', '7'].")


async def _failure() -> None:
    result = await CLIENTS[0].call_tool("desk", {"prompt": "fail"}, raise_on_error=False)
    expect((result.is_error, "the model refuses" in result.content[0].text), (True, True))


async def _cancel() -> None:
    task = await call_tool_task(CLIENTS[0], "desk", {"prompt": endless(NAME)})
    await task.wait(state="working")
    await task.cancel()
    expect((await task.wait()).status, "cancelled")


async def _killed_worker() -> None:
    text, _ = await asyncio.gather(_text("desk", "a long one"), asyncio.to_thread(kill_worker))
    expect(text, LONG_TEXT)


async def _hundred() -> None:
    async def one(prompt: str) -> None:
        expect(await _text("desk", prompt), answer_to(prompt))

    await asyncio.gather(*map(one, hundred(NAME)))


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
        "tools": run(_tools),
        "approval": run(_approval),
        "failure": run(_failure),
        "killed worker": run(_killed_worker),
        "a hundred runs": run(_hundred),
        **({"resume": run(_resume), "cancel": run(_cancel)} if find_spec("fastmcp_tasks") else {}),
    }
)
