"""following: read the stream of a task until an answer is whole, for an open connection or for a single reply."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import Any, TypeVar

from fastapi import Request

from roboco.client.task import Task
from roboco.gateway.closing import racing
from roboco.gateway.openai.chat_stream import ChatStream
from roboco.gateway.openai.events import ResponseEvent, events_after
from roboco.gateway.openai.response_stream import ResponseStream
from roboco.gateway.openai.sse import frame
from roboco.gateway.principal import ACCESS
from roboco.gateway.problem import Problem, unavailable
from roboco.gateway.streams.live_response import OnDisconnect

Answered = TypeVar("Answered")


async def answer_pieces(
    task: Task, stream: ChatStream | ResponseStream, cursor: str | None
) -> AsyncGenerator[list[Any], None]:
    """Yield the pieces of an answer, as they arise, until its last one. Raise Problem if the task ends before."""
    async with aclosing(task.astream(cursor)) as items:
        async for item in items:
            if pieces := list(stream.feed(item)):
                yield pieces
            if stream.finished:
                return
    detail = f"task {task.task_id} has ended before the answer"
    raise Problem(409, "ended", detail, "continue after its last response, in a branch")


async def response_frames(
    batches: AsyncGenerator[list[ResponseEvent], None], starting_after: int | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield the frames of the events that a client lacks.

    The events that end a step repeat its text. Each is written once the client has read those before, so that a slow
    client holds one of them.
    """
    async with aclosing(batches):
        async for events in batches:
            for event in events_after(events, starting_after):
                yield frame(event.document(), event.type)


async def drained(batches: AsyncGenerator[Any, None]) -> None:
    """Read all pieces of an answer, which its stream keeps."""
    async with aclosing(batches):
        async for _ in batches:
            continue


async def answer_while_connected(
    request: Request, closing: asyncio.Event, work: Awaitable[Answered], on_disconnect: OnDisconnect | None = None
) -> Answered:
    """Return the result of the work. If the client goes, or the process exits, the task goes on without this wait.

    Raise Problem `unavailable` at the exit: the client repeats the request, and another gateway finds its task.
    """
    async with racing(work, _gone(request), closing.wait()) as (working, gone, _):
        if working.done():
            result: Answered = working.result()
            if (access := request.scope.get(ACCESS)) is not None:
                await access.check_now()
            return result
        if not gone.done():
            raise unavailable("this gateway exits")
        if on_disconnect is not None:
            await on_disconnect()
        raise Problem(499, "disconnected", "the client has closed the connection")


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        continue
