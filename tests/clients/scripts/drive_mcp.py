"""The client of the package mcp, of the newest version of the protocol, or of the one before sessions went."""

import asyncio
import os
from typing import Any

from mcp import Client
from mcp_types import ElicitResult
from rows import HELLO, LONG_TEXT, PLACE, answer_to, drive, endless, expect, hundred, kill_worker

URL = os.environ["OPENAI_BASE_URL"].replace("/openai/v1", "/mcp")
LEGACY = os.environ["MCP_MODE"] == "legacy"


async def _approve(_context: Any, _params: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"approve": True})


def connected() -> Client:
    """Return a client."""
    return Client(URL, elicitation_callback=_approve, mode="legacy" if LEGACY else "auto")


async def _plain() -> None:
    async with connected() as client:
        assert "desk" in [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("desk", {"prompt": "Hello"})
        expect(result.structured_content["text"], HELLO)


async def _stream() -> None:
    seen: list[str] = []

    async def progress(_done: float, _total: float | None, message: str | None) -> None:
        seen.append(str(message))

    async with connected() as client:
        await client.call_tool("line", {"prompt": "two agents"}, progress_callback=progress)
    expect(seen, ["first acts", "second acts", "completed"])


async def _approval() -> None:
    async with connected() as client:
        for team in ("guarded", "chief"):
            result = await client.call_tool(team, {"prompt": "add"})
            if LEGACY:
                [call] = result.structured_content["waits_for"]
                about = {"task_id": result.structured_content["task_id"], "call_id": call["call_id"]}
                result = await client.call_tool("roboco_task", {"action": "approve", **about})
            expect("The result is 3." in result.structured_content["text"], True)


async def _tools() -> None:
    """Two calls of one turn, each of which needs an approval, run at the same time."""
    async with connected() as client:
        result = await client.call_tool("guarded", {"prompt": "add twice"})
        if LEGACY:
            task_id = result.structured_content["task_id"]
            for call in result.structured_content["waits_for"]:
                about = {"task_id": task_id, "call_id": call["call_id"]}
                result = await client.call_tool("roboco_task", {"action": "approve", **about})
        expect(result.structured_content["text"], "The results are ['3', '7'].")


async def _resume() -> None:
    """Cut the connection, and send the call again with its key."""
    prompt = f"a brisk one for {os.environ['MCP_NAME']}."
    meta: Any = {"roboco/idempotency-key": prompt}
    begun = asyncio.Event()

    async def progress(_done: float, _total: float | None, _message: str | None) -> None:
        begun.set()

    async with connected() as client:
        call = asyncio.create_task(client.call_tool("desk", {"prompt": prompt}, None, progress, meta=meta))
        await begun.wait()
        call.cancel()
    async with connected() as client:
        result = await client.call_tool("desk", {"prompt": prompt}, meta=meta)
        tasks = [one for one in (await client.list_resources()).resources if one.name == prompt]
        expect((result.structured_content["text"], len(tasks)), (LONG_TEXT, 1))


async def _cancel() -> None:
    async with connected() as client:
        call = asyncio.create_task(client.call_tool("desk", {"prompt": endless(os.environ["MCP_NAME"])}))
        task_id = ""
        while not task_id:
            await asyncio.sleep(0.1)
            found = (await client.list_resources()).resources
            task_id = next(
                (str(one.uri).split("/")[2] for one in found if endless(os.environ["MCP_NAME"]) in one.name), ""
            )
        await client.call_tool("roboco_task", {"task_id": task_id, "action": "stop"})
        expect((await call).is_error, True)


async def _structured() -> None:
    async with connected() as client:
        result = await client.call_tool("typed", {"prompt": "warm, as JSON"})
        expect(result.structured_content["output"], PLACE)


async def _failure() -> None:
    async with connected() as client:
        result = await client.call_tool("desk", {"prompt": "fail"})
        expect((result.is_error, "the model refuses" in result.content[0].text), (True, True))


async def _killed_worker() -> None:
    killed = []

    async def progress(_done: float, _total: float | None, message: str | None) -> None:
        if not killed:
            killed.append(asyncio.ensure_future(asyncio.to_thread(kill_worker)))

    async with connected() as client:
        result = await client.call_tool("desk", {"prompt": "a long one"}, progress_callback=progress)
        await killed[0]
    expect(result.structured_content["text"], LONG_TEXT)


async def _hundred() -> None:
    async def one(client: Client, prompt: str) -> None:
        result = await client.call_tool("desk", {"prompt": prompt})
        expect(result.structured_content["text"], answer_to(prompt))

    async with connected() as client:
        await asyncio.gather(*(one(client, prompt) for prompt in hundred(os.environ["MCP_NAME"])))


drive(
    {
        "plain": lambda: asyncio.run(_plain()),
        "stream": lambda: asyncio.run(_stream()),
        "structured output": lambda: asyncio.run(_structured()),
        "resume": lambda: asyncio.run(_resume()),
        "tools": lambda: asyncio.run(_tools()),
        "failure": lambda: asyncio.run(_failure()),
        "killed worker": lambda: asyncio.run(_killed_worker()),
        "a hundred runs": lambda: asyncio.run(_hundred()),
        "approval": lambda: asyncio.run(_approval()),
        "cancel": lambda: asyncio.run(_cancel()),
    }
)
