"""Long polls: a delta waits for news while the team works, so that a client asks once for each change.

    token ─► poll ─► news, or not the team's turn ─► answer
               ▲        none: wait for the logs ─┐
               └─────────────────────────────────┴─► after POLL_SECONDS, or if the process exits: answer

A message that is accepted, and not applied yet, is the team's turn: its step wakes the wait. A session that waits for
its user, its client or for ever is answered immediately. A poll that waits counts as an open stream of its caller.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Final

from fastapi.responses import JSONResponse

from roboco.client.task import Task
from roboco.gateway.gateway import Gateway
from roboco.gateway.principal import Principal
from roboco.gateway.roboto.answers import MAX_SESSION_BYTES
from roboco.gateway.roboto.changes import Changes, GivenToken, Reader, changes_since
from roboco.gateway.roboto.errors import enveloped

POLL_SECONDS: Final = 20.0
"""Seconds that a delta waits for news while the team works."""


async def next_changes(
    gateway: Gateway, caller: Principal, task: Task, token: GivenToken, reader: Reader
) -> JSONResponse:
    """Answer with the changes since the token, as soon as there are any; with none after the time of a long poll.

    Raise Problem `rate_limited` if it would have to wait, and the caller has too many open streams.
    """
    deadline = time.monotonic() + POLL_SECONDS
    async with AsyncExitStack() as held:
        waits = False
        while True:
            changes, answer = await gateway.calls.reads.run(_poll, task, token, reader)
            left = deadline - time.monotonic()
            if changes.are_news or left <= 0 or gateway.closing.is_set():
                return answer
            if not waits:
                await held.enter_async_context(gateway.limits.open_stream(caller))
                waits = True
            token = changes.token
            await _changed_or_closing(gateway, task, token, left)


def _poll(task: Task, token: GivenToken, reader: Reader) -> tuple[Changes, JSONResponse]:
    """Return the changes as of now, and the answer with them, which takes long to write for a long session."""
    changes = changes_since(token, task.poll(str(token.at), MAX_SESSION_BYTES), reader)
    return changes, enveloped(changes.data())


async def _changed_or_closing(gateway: Gateway, task: Task, token: GivenToken, seconds: float) -> None:
    """Return as soon as the session may have changed, or the process is about to exit."""
    waits = [
        asyncio.ensure_future(task.changed(str(token.at), seconds)),
        asyncio.ensure_future(gateway.closing.wait()),
    ]
    try:
        done, _ = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in done:
            wait.result()
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
