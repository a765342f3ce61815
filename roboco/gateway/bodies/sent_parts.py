"""sent_parts: send a part of a streamed body in pieces, so that a client that does not read holds little memory.

A server copies each body that it is given, and keeps the copy until the client has read it. It lets the application
go on while its buffer is small: so at most one piece more waits there.
"""

from typing import Final

from starlette.types import Send

MAX_SENT_BYTES: Final = 65_536
"""Bytes that are sent at a time."""


async def send_part(send: Send, data: bytes) -> None:
    """Send a part of a body that goes on. Each piece is sent once the client has read enough of those before."""
    if len(data) <= MAX_SENT_BYTES:
        await send({"type": "http.response.body", "body": data, "more_body": True})
        return
    for start in range(0, len(data), MAX_SENT_BYTES):
        piece = data[start : start + MAX_SENT_BYTES]
        await send({"type": "http.response.body", "body": piece, "more_body": True})
