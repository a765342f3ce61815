"""Answers with a session, and long polls: a delta waits for news while the team works.

    token ─► poll ─► news, or not the team's turn ─► answer
               ▲        none: wait for the logs ─┐
               └─────────────────────────────────┴─► after POLL_SECONDS, or if the process exits: answer

A message that is accepted, and not applied yet, is the team's turn: its step wakes the wait. A session that waits for
its user, its client or for ever is answered immediately. A poll that waits counts as an open stream of its caller.
"""

import time
from contextlib import AsyncExitStack
from typing import Annotated, Any, Final

from fastapi import Header
from fastapi.responses import JSONResponse

from roboco.client.task import Task
from roboco.domain.session.agent_session import AgentSessionStatus, agent_session
from roboco.domain.session.session import ContinuationToken, Session
from roboco.gateway.closing import racing
from roboco.gateway.gateway import Gateway
from roboco.gateway.principal import Principal
from roboco.gateway.roboto.changes import (
    Changes,
    GivenToken,
    Reader,
    changes_since,
    running_text,
    session_status,
    without_blank_turn,
)
from roboco.gateway.roboto.errors import enveloped
from roboco.gateway.roboto.goals import goal_records

VISIBILITY = "org"
"""The callers that may read a session: all keys of its tenant."""


def session_record(session: Session, continues: bool, team: str, shown: int | None = None) -> dict[str, Any]:
    """Return the record with the first `shown` messages, or with all, and the token of a client that has these.

    The client yields events of deltas alone. So the record of a new session holds the messages of its request, and
    everything that the team has written meanwhile follows in deltas. Until then it is the team's turn.
    """
    at = ContinuationToken.parse(session.continuation_token)
    token = GivenToken.after(at, running_text(session.messages))
    messages = without_blank_turn(session.messages)
    status = AgentSessionStatus.ROBOTO_TURN if session.more else session_status(session.status, continues)
    if shown is not None:
        more_follow = 0 < shown < len(session.messages) or session.more
        status = AgentSessionStatus.ROBOTO_TURN if more_follow else status
        token, messages = GivenToken(ContinuationToken(steps=shown)), messages[:shown]
    record = agent_session(session.model_copy(update={"messages": messages}))
    data = record.model_dump(mode="json", exclude={"goals"})
    return data | {
        "thread_id": session.task_id,
        "created_by": created_by(session),
        "created_from_agent_id": team,
        "visibility": VISIBILITY,
        "status": status,
        "goals": goal_records(session.goals),
        "continuation_token": str(token),
    }


def created_by(session: Session) -> str:
    """Return the caller that has started or forked the session, or the author of its first message."""
    first = session.messages[0] if session.messages else None
    by = session.lineage.forked_by or (first.by if first is not None else None)
    return by or (first.agent_name if first is not None else "user")


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
            async with racing(task.changed(str(token.at), left), gateway.closing.wait()) as (changed, _):
                if changed.done():
                    changed.result()


def _poll(task: Task, token: GivenToken, reader: Reader) -> tuple[Changes, JSONResponse]:
    """Return the changes as of now, and the answer with them, which takes long to write for a long session."""
    changes = changes_since(token, task.poll(str(token.at), MAX_SESSION_BYTES), reader)
    return changes, enveloped(changes.data())
