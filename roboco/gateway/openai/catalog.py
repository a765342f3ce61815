"""catalog: the teams as models, and new conversations."""

import uuid
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query

from roboco.gateway.access import Caller
from roboco.gateway.gateway import TheGateway
from roboco.gateway.openai.bodies import ConversationBody, Order
from roboco.gateway.openai.ids import conversation_id, task_of_conversation
from roboco.gateway.openai.problems import OpenAIRoute, unknown_model
from roboco.gateway.openai.reading import conversation_items, page_of
from roboco.gateway.principal import Scope
from roboco.gateway.problem import Problem
from roboco.gateway.teams import model_names, team_names

router = APIRouter(prefix="/openai/v1", tags=["openai"], route_class=OpenAIRoute)


@router.get("/models", summary="List the teams")
async def list_models(caller: Caller, gateway: TheGateway) -> dict[str, Any]:
    """Return the teams that the caller may use, each as a model."""
    caller.require(Scope.READ)
    return {
        "object": "list",
        "data": [_model(name) for name in await gateway.calls.reads.run(model_names, gateway, caller)],
    }


@router.get("/models/{name}", summary="Get a team")
async def get_model(name: str, caller: Caller, gateway: TheGateway) -> dict[str, Any]:
    """Return a team as a model."""
    caller.require(Scope.READ)
    known = model_names if ":" in name else team_names
    if name not in await gateway.calls.reads.run(known, gateway, caller):
        raise unknown_model(name[:80])
    return _model(name)


@router.post("/conversations", summary="Create a conversation")
async def create_conversation(body: ConversationBody, caller: Caller) -> dict[str, Any]:
    """Return the id of a new conversation. Nothing is stored: its first response creates the task."""
    caller.require(Scope.SUBMIT)
    return _conversation(f"task_{uuid.uuid4().hex}", datetime.now(UTC))


@router.get("/conversations/{name}", summary="Get a conversation")
async def get_conversation(name: str, caller: Caller, gateway: TheGateway) -> dict[str, Any]:
    """Return a conversation that has a response."""
    caller.require(Scope.READ)
    task_id = task_of_conversation(name)
    task = await gateway.task(caller, task_id)
    summary = await gateway.calls.reads.run(task.stored_summary)
    return _conversation(task_id, summary.created_at)


@router.get("/conversations/{name}/items", summary="List the items of a conversation")
async def list_conversation_items(
    name: str,
    caller: Caller,
    gateway: TheGateway,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Order = "desc",
    after: str | None = None,
) -> dict[str, Any]:
    """Return a page of the items of a conversation that has a response."""
    caller.require(Scope.READ)
    task_id = task_of_conversation(name)
    task = await gateway.task(caller, task_id)
    return page_of(await gateway.calls.histories.run(conversation_items, task, task_id), limit, order, after)


@router.post("/conversations/{name}", summary="Not possible: a conversation is a history")
@router.delete("/conversations/{name}", summary="Not possible: histories are not erased")
@router.post("/conversations/{name}/items", summary="Not possible: agents and users write a history")
async def refuse_change(name: str, caller: Caller) -> None:
    """Refuse: a conversation is the history of a task, which grows by its responses alone."""
    caller.require(Scope.CONTROL)
    detail = f"conversation {name[:200]!r} is the history of a task: it is kept as a whole, and grows by its responses"
    remedy = "send messages with POST /responses and the field `conversation`"
    raise Problem(405, "method_not_allowed", detail, remedy, {"Allow": "GET"})


@router.delete("/conversations/{name}/items/{item_id}", summary="Not possible: histories are not erased")
async def refuse_deletion(name: str, item_id: str, caller: Caller) -> None:
    """Refuse: an item is a part of a history, whose steps are never erased one by one."""
    await refuse_change(name, caller)


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "roboco"}


def _conversation(task_id: str, created_at: datetime) -> dict[str, Any]:
    created = int(created_at.timestamp())
    return {"id": conversation_id(task_id), "object": "conversation", "created_at": created, "metadata": {}}
