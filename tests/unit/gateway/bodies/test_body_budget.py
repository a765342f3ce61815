"""Large bodies of responses: they leave in pieces, and are counted until their client has read them."""

import asyncio
from typing import Any

import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from roboco.gateway.bodies.body_budget import MAX_HELD_OF_OWNER, PIECE_BYTES, BodyBudget, LargeBodies, pieces_of
from roboco.gateway.principal import ACCESS, ALL_SCOPES, Principal
from roboco.gateway.problem import Problem

BODY = b"x" * (3 * PIECE_BYTES + 1)


class Known:
    """The Access of a caller."""

    def __init__(self, tenant: str) -> None:
        self.principal = Principal("key:a", tenant, ALL_SCOPES)


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    await Response(BODY)(scope, receive, send)


async def ask(app: LargeBodies, tenant: str, sent: list[Message], may_go_on: asyncio.Event) -> None:
    async def send(message: Message) -> None:
        sent.append(message)
        if message.get("more_body"):
            await may_go_on.wait()

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    scope: dict[str, Any] = {"type": "http", "method": "GET", "headers": [], ACCESS: Known(tenant)}
    await app(scope, receive, send)


def test_a_client_that_does_not_read_holds_its_body_and_others_of_its_owner_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("roboco.gateway.bodies.body_budget.MAX_HELD_OF_OWNER", len(BODY) + 1)

    async def main() -> None:
        app, reads = LargeBodies(answer, BodyBudget()), asyncio.Event()
        slow: list[Message] = []
        reading = asyncio.create_task(ask(app, "acme", slow, reads))
        while len(slow) < 2:
            await asyncio.sleep(0)
        assert len(slow[1]["body"]) == PIECE_BYTES
        refused, other, again = list[Message](), list[Message](), list[Message]()
        await ask(app, "acme", refused, reads)
        assert refused[0]["status"] == 503
        assert (b"retry-after", b"2") in refused[0]["headers"]
        reads.set()
        await ask(app, "other", other, reads)
        await reading
        await ask(app, "acme", again, reads)
        for sent in (slow, other, again):
            assert sent[0]["status"] == 200
            assert b"".join(message["body"] for message in sent[1:]) == BODY

    asyncio.run(main())


def test_all_owners_together_hold_a_bounded_number_of_bytes() -> None:
    budget = BodyBudget()
    held = [budget.hold(str(owner), MAX_HELD_OF_OWNER) for owner in range(4)]
    for one in held:
        one.__enter__()
    with pytest.raises(Problem), budget.hold("5", PIECE_BYTES):
        raise AssertionError
    held[0].__exit__(None, None, None)
    with budget.hold("5", PIECE_BYTES):
        pass


def test_a_part_of_a_stream_is_sent_in_pieces() -> None:
    """A server copies each body that it is given, and keeps the copy until the client has read it."""
    part = bytes(range(256)) * 1000
    sent = list(pieces_of(part, goes_on=True))
    assert b"".join(piece["body"] for piece in sent) == part
    assert max(len(piece["body"]) for piece in sent) == PIECE_BYTES
    assert all(piece["more_body"] for piece in sent)
