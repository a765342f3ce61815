"""The routes of sessions, under both names that roboto.ai's clients use: `/v1/ai/chats` and `/v1/ai/threads`."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import JSONResponse

from roboco.domain.feedback import Feedback
from roboco.domain.ids import tenant_of
from roboco.gateway.access import Caller
from roboco.gateway.gateway import TheGateway
from roboco.gateway.idempotency import IdempotencyKey, are_answered
from roboco.gateway.principal import Scope
from roboco.gateway.roboto.answers import OrgId, answer_with_session, next_changes
from roboco.gateway.roboto.changes import GivenToken, Reader, drops_void_text
from roboco.gateway.roboto.errors import CreatingRoute, RobotoRoute, enveloped
from roboco.gateway.roboto.requests import (
    FeedbackRequest,
    ForkBody,
    SendRequest,
    StartRequest,
    ToolResultsRequest,
)
from roboco.gateway.roboto.sending import answer_tools, is_accepted, send_message, sender_prefix
from roboco.gateway.roboto.starting import (
    first_messages,
    fork_session,
    owner,
    start_session,
    team_of_chats,
)

NAMES = ("chats", "threads")
"""The names of a session in roboto.ai's clients up to 0.45, and later."""


async def start(
    request: StartRequest, gateway: TheGateway, caller: Caller, org_id: OrgId = None, key: IdempotencyKey = None
) -> JSONResponse:
    """Start a session of the team that the operator has chosen."""
    caller.require(Scope.SUBMIT)
    shown = first_messages(request)
    team = await gateway.calls.reads.run(team_of_chats, gateway, caller)
    task = await start_session(gateway, caller, team, request, owner(caller, org_id), key)
    return await answer_with_session(gateway, task, shown)


async def get(session_id: str, gateway: TheGateway, caller: Caller, load_messages: bool = True) -> JSONResponse:
    """Return a session."""
    caller.require(Scope.READ)
    task = await gateway.task(caller, session_id)
    return await answer_with_session(gateway, task, None if load_messages else 0)


async def delta(
    session_id: str,
    gateway: TheGateway,
    caller: Caller,
    next_token: Annotated[str, Query(max_length=200)] = "",
    requester: Annotated[str, Header(alias="X-Roboto-Requester")] = "",
) -> JSONResponse:
    """Return the changes since a token; while the team works, as soon as there are any."""
    caller.require(Scope.READ)
    token = GivenToken.parse(next_token) if next_token else GivenToken()
    reader = Reader(sender_prefix(caller.by), drops_void_text(requester))
    task = await gateway.task(caller, session_id)
    return await next_changes(gateway, caller, task, token, reader)


async def send(session_id: str, request: SendRequest, gateway: TheGateway, caller: Caller) -> JSONResponse:
    """Send a message. The same request again, before its answer is known, is the same message."""
    caller.require(Scope.CONTROL)
    task = await gateway.task(caller, session_id)
    now = datetime.now(UTC)
    await gateway.admit_message(caller, lambda: is_accepted(task, caller.by, request, now))
    await gateway.calls.histories.run(send_message, task, caller.by, request, now)
    return enveloped(None)


async def submit_results(
    session_id: str, request: ToolResultsRequest, gateway: TheGateway, caller: Caller
) -> JSONResponse:
    """Submit results of client tools. Each call has one result."""
    caller.require(Scope.CONTROL)
    task = await gateway.task(caller, session_id)
    call_ids = [outcome.tool_use_id for outcome in request.tool_results]
    await gateway.admit_message(caller, lambda: are_answered(task, call_ids))
    await gateway.calls.histories.run(answer_tools, task, caller.by, request)
    return enveloped(None)


async def fork(session_id: str, request: ForkBody, gateway: TheGateway, caller: Caller) -> JSONResponse:
    """Start a session from the messages up to and including one of another session."""
    caller.require(Scope.CONTROL)
    task = await gateway.task(caller, session_id)
    forked = await fork_session(gateway, caller, task, request.message_sequence_num)
    return await answer_with_session(gateway, forked, request.message_sequence_num + 1)


async def rate(
    session_id: str, index: int, request: FeedbackRequest, gateway: TheGateway, caller: Caller
) -> JSONResponse:
    """Rate a message of an assistant. A newer rating of the same caller replaces its older one."""
    caller.require(Scope.CONTROL)
    task = await gateway.task(caller, session_id)
    categories = sorted(set(request.categories))
    feedback = await gateway.calls.controls.run(
        task.rate, index, request.sentiment, by=caller.by, categories=categories, notes=request.notes or None
    )
    return enveloped(_feedback_record(task.task_id, feedback))


def _feedback_record(task_id: str, feedback: Feedback) -> dict[str, Any]:
    data = feedback.model_dump(mode="json", include={"feedback_id", "sentiment", "categories", "notes"})
    stored = feedback.model_dump(mode="json")
    return data | {
        "session_id": task_id,
        "thread_id": task_id,
        "message_sequence_num": feedback.seq,
        "org_id": tenant_of(task_id),
        "created": stored["created_at"],
        "created_by": feedback.by,
        "modified": stored["modified_at"],
        "modified_by": feedback.by,
    }


def _session_router(name: str) -> APIRouter:
    """Return the routes of sessions under this name."""
    router = APIRouter(prefix=f"/v1/ai/{name}", route_class=RobotoRoute, include_in_schema=False)
    router.add_api_route("", start, methods=["POST"], route_class_override=CreatingRoute)
    router.add_api_route("/{session_id}", get, methods=["GET"])
    router.add_api_route("/{session_id}/delta", delta, methods=["GET"])
    router.add_api_route("/{session_id}/messages", send, methods=["POST"])
    router.add_api_route("/{session_id}/tool-results", submit_results, methods=["POST"])
    router.add_api_route("/{session_id}/fork", fork, methods=["POST"], route_class_override=CreatingRoute)
    router.add_api_route("/{session_id}/messages/{index}/feedback", rate, methods=["POST"])
    return router


router = APIRouter(route_class=RobotoRoute, include_in_schema=False)
for _name in NAMES:
    router.include_router(_session_router(_name))
