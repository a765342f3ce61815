"""body_budget: large responses leave in pieces, and the process holds a bounded number of their bytes.

    body of a response ─► 64 KB or less: sent at once
                       └► more ─► budget of all, part of its owner ─► piece ─► client has read it ─► next piece
                                       └► spent: 503 with Retry-After

Readers that do not read so keep a bounded memory: `bounded_http` closes their connections after a while.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roboco.gateway.principal import ACCESS
from roboco.gateway.problem import Problem, problem_response, unavailable

# A server copies each body that it is given, and keeps the copy until the client has read it. It lets the application
# go on while its buffer is small: so at most one piece more waits there.
PIECE_BYTES: Final = 65_536
"""Bytes of a piece. A smaller body is sent whole, and is not counted."""
MAX_HELD: Final = 256 * 1024 * 1024
"""Bytes of large bodies that clients have not read yet, of all owners together."""
MAX_HELD_OF_OWNER: Final = 64 * 1024 * 1024
"""Those of one owner: readers of one tenant do not refuse those of others."""


class BodyBudget:
    """The bytes of the large bodies that are being sent, and of the large requests that are kept meanwhile."""

    def __init__(self) -> None:
        self._held = Counter[str]()

    @contextmanager
    def hold(self, owner: str, size: int) -> Iterator[None]:
        """Count the bytes until the block ends. Raise Problem `unavailable` if there are too many.

        One body alone is always admitted.
        """
        mine, all_held = self._held[owner], self._held.total()
        if (mine and mine + size > MAX_HELD_OF_OWNER) or (all_held and all_held + size > MAX_HELD):
            raise unavailable("too many large bodies wait for clients that read slowly")
        self._held[owner] += size
        try:
            yield
        finally:
            self._held[owner] -= size
            if not self._held[owner]:
                del self._held[owner]


def pieces_of(body: bytes, goes_on: bool = False) -> Iterator[Message]:
    """Yield the messages that send the body in pieces. `goes_on` says that it is only a part."""
    for start in range(0, len(body), PIECE_BYTES):
        more = goes_on or start + PIECE_BYTES < len(body)
        yield {"type": "http.response.body", "body": body[start : start + PIECE_BYTES], "more_body": more}


class LargeBodies:
    """Sends the large bodies of responses within the budget. Streams pass unchanged: they have their own pieces."""

    def __init__(self, app: ASGIApp, budget: BodyBudget) -> None:
        self._app = app
        self._budget = budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI request."""
        start: Message | None = None

        async def send_in_pieces(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _announced(message) > PIECE_BYTES:
                start = message  # it waits for the body, which may be refused
                return
            held, start = start, None
            if held is None:
                await send(message)
            elif message.get("more_body"):
                await send(held)
                await send(message)
            else:
                await self._send_large(scope, held, message.get("body", b""), send)

        await self._app(scope, receive, send_in_pieces if scope["type"] == "http" else send)

    async def _send_large(self, scope: Scope, start: Message, body: bytes, send: Send) -> None:
        caller = scope[ACCESS].principal
        try:
            # Files of the page and the document of the API are the same bytes for all readers.
            with nullcontext() if caller is None else self._budget.hold(caller.owner, len(body)):
                await send(start)
                for piece in pieces_of(body):
                    await send(piece)
        except Problem as problem:
            response = problem_response(problem)
            await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
            await send({"type": "http.response.body", "body": response.body})


def _announced(start: Message) -> int:
    return next((int(value) for name, value in start["headers"] if name.lower() == b"content-length"), 0)
