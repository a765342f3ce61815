"""Answers with a session, and the header of requests that names a tenant."""

from typing import Annotated, Final

from fastapi import Header
from fastapi.responses import JSONResponse

from roboco.client.task import Task
from roboco.gateway.gateway import Gateway
from roboco.gateway.roboto.errors import enveloped
from roboco.gateway.roboto.record import session_record

MAX_SESSION_BYTES: Final = 4 * 1024 * 1024
"""Bytes of the steps of a session or delta, unless its first step alone has more. Deltas have the others."""
OrgId = Annotated[str | None, Header(alias="X-Roboto-Org-Id", max_length=64)]


async def answer_with_session(gateway: Gateway, task: Task, shown: int | None = None) -> JSONResponse:
    """Return the answer with the record of the session and its first messages, or all of them."""
    return await gateway.calls.reads.run(_answer, task, shown)


def _answer(task: Task, shown: int | None) -> JSONResponse:
    session = task.session(max_bytes=MAX_SESSION_BYTES)
    poll = task.poll(session.continuation_token, MAX_SESSION_BYTES)
    return enveloped(session_record(session, poll.continues, task.team().name, shown))
