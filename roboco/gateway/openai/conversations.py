"""conversations: the routes of OpenAI's conversations.

POST /conversations ─► record: metadata, items ─► first response: a task, whose history begins with the items
                                                  └─► items: those of the record, then those of the responses

Until its first response a conversation is a list of items that its client changes, as sessions of openai-agents do.
From then on it is a history: metadata changes alone, and a deletion stops its task and hides it.
What if a request arrives twice: items that the same request has added are returned; the record of a key is the same.
"""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request

from roboco.domain.canonical_json import sha256
from roboco.domain.conversation import Change, StoredConversation, StoredItem
from roboco.errors import UsageError
from roboco.gateway.access import Caller
from roboco.gateway.bodies.strict_json import StrictJsonRoute
from roboco.gateway.gateway import Gateway, TheGateway
from roboco.gateway.idempotency import NewTaskId
from roboco.gateway.openai.accepting import FoundConversation, find_conversation
from roboco.gateway.openai.bodies import ConversationBody, ItemsBody, JsonObject, MetadataBody, Order
from roboco.gateway.openai.ids import task_of_conversation
from roboco.gateway.openai.outputs import OutputItem, text_part
from roboco.gateway.openai.problems import wrong_parameter
from roboco.gateway.openai.reading import conversation_items, page_of
from roboco.gateway.openai.repetition import Repetition, repetition_of
from roboco.gateway.openai.turn import Referred, input_entry
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import Problem

router = APIRouter(prefix="/openai/v1", tags=["openai"], route_class=StrictJsonRoute)
_PREFIXES: Final = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}


@router.post("/conversations", summary="Create a conversation")
async def create_conversation(
    request: Request, body: ConversationBody, caller: Caller, gateway: TheGateway
) -> dict[str, Any]:
    """Create a conversation, with items that precede its first response. It has no task yet."""
    caller.require(Scope.SUBMIT)
    repetition, now = await repetition_of(request, caller), datetime.now(UTC)
    keyed = repetition.key is not None
    task_id = repetition.new_task_id("conversation") if keyed else f"task_{uuid.uuid4().hex}"
    identity, whole_id = repetition.digest if keyed else uuid.uuid4().hex, caller.task_id(task_id)
    fields = {"by": caller.by, "created_at": now, "changed_at": now, "metadata": body.metadata or {}}

    def create() -> StoredConversation:
        items = list(_stored(body.items or (), repetition.item_id(whole_id, 0), now))
        new = StoredConversation(request=identity, **fields).with_items(items)
        return gateway.orchestrator.create_conversation(whole_id, new)

    stored = await gateway.create_task(caller, NewTaskId(whole_id, keyed), create)
    return FoundConversation(task_id, whole_id, None, stored).shown()


@router.get("/conversations/{name}", summary="Get a conversation")
async def get_conversation(name: str, caller: Caller, gateway: TheGateway) -> dict[str, Any]:
    """Return a conversation."""
    caller.require(Scope.READ)
    return await gateway.calls.reads.run(lambda: find_conversation(gateway, caller, name).shown())


@router.post("/conversations/{name}", summary="Change the metadata of a conversation")
async def update_conversation(name: str, body: MetadataBody, caller: Caller, gateway: TheGateway) -> dict[str, Any]:
    """Replace the metadata of a conversation."""
    caller.require(Scope.CONTROL)
    fields = {"metadata": body.metadata or {}}
    change = partial(_change, gateway, caller, name, lambda record, _: record.model_copy(update=fields))
    return await gateway.calls.controls.run(change)


@router.delete("/conversations/{name}", summary="Delete a conversation")
async def delete_conversation(request: Request, name: str, caller: Caller, gateway: TheGateway) -> dict[str, Any]:
    """Delete a conversation: its items, or, if it has responses, stop its task, whose history stays, and hide it."""
    caller.require(Scope.CONTROL)
    again = (await repetition_of(request, caller)).attempts > 0
    await gateway.calls.controls.run(_delete, gateway, caller, name, again)
    return {"id": name, "object": "conversation.deleted", "deleted": True}


@router.get("/conversations/{name}/items", summary="List the items of a conversation")
async def list_conversation_items(
    name: str,
    caller: Caller,
    gateway: TheGateway,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Order = "desc",
    after: str | None = None,
) -> dict[str, Any]:
    """Return a page of the items of a conversation."""
    caller.require(Scope.READ)
    return page_of(await _all_items(gateway, caller, name), limit, order, after)


@router.post("/conversations/{name}/items", summary="Add items to a conversation")
async def add_items(
    request: Request, name: str, body: ItemsBody, caller: Caller, gateway: TheGateway
) -> dict[str, Any]:
    """Add items to a conversation that has no response yet, and return them."""
    caller.require(Scope.CONTROL)
    repetition = await repetition_of(request, caller)
    added = await gateway.calls.controls.run(_add, gateway, caller, name, body, repetition)
    return page_of(added, len(added), "asc", None)


@router.get("/conversations/{name}/items/{item_id}", summary="Get an item of a conversation")
async def get_item(name: str, item_id: str, caller: Caller, gateway: TheGateway) -> dict[str, Any]:
    """Return an item of a conversation."""
    caller.require(Scope.READ)
    found = next((item for item in await _all_items(gateway, caller, name) if item["id"] == item_id), None)
    if found is None:
        raise Problem(404, "not_found", f"no item {item_id[:200]!r}", "list the items of the conversation")
    return found


@router.delete("/conversations/{name}/items/{item_id}", summary="Delete an item of a conversation")
async def delete_item(request: Request, name: str, item_id: str, caller: Caller, gateway: TheGateway) -> dict[str, Any]:
    """Delete an item of a conversation that has no response yet."""
    caller.require(Scope.CONTROL)
    again = (await repetition_of(request, caller)).attempts > 0
    delete = partial(_change, gateway, caller, name, lambda record, _: record.without_item(item_id, again), True)
    return await gateway.calls.controls.run(delete)


async def _all_items(gateway: Gateway, caller: Principal, name: str) -> list[OutputItem]:
    def read() -> list[OutputItem]:
        found = find_conversation(gateway, caller, name)
        said = () if found.task is None else conversation_items(found.task, found.task_id, not found.items)
        return [*found.items, *said]

    return await gateway.calls.histories.run(read)


def _change(gateway: Gateway, caller: Principal, name: str, change: Change, of_items: bool = False) -> dict[str, Any]:
    """Change the record. Return the conversation. Raise Problem `conflict` for items of one that has a response."""
    found = find_conversation(gateway, caller, name)
    if of_items and found.task is not None:
        detail = f"conversation {name[:200]!r} has responses: it is the history of a task, kept as a whole"
        remedy = "send messages with POST /responses; previous_response_id of an earlier response begins a branch"
        raise Problem(409, "conflict", detail, remedy)
    changed = gateway.orchestrator.change_conversation(found.whole_id, caller.by, change, found.record, of_items)
    return found.shown(changed)


def _delete(gateway: Gateway, caller: Principal, name: str, again: bool) -> None:
    """Stop the task, if there is one, and empty and hide the record."""
    try:
        found = find_conversation(gateway, caller, name)
    except Problem as problem:
        if again and problem.status == 404:
            return
        raise
    if found.task is not None and not found.task.summary().status.ended:
        with suppress(UsageError):  # it has ended at this moment
            found.task.stop("its conversation was deleted", f"oa-deleted-{sha256(found.whole_id)[:32]}", by=caller.by)
    _change(gateway, caller, name, lambda record, _: record.emptied())


def _add(gateway: Gateway, caller: Principal, name: str, body: ItemsBody, repetition: Repetition) -> list[OutputItem]:
    """Add the items. Return them, or those that an earlier attempt at the request has added."""
    identity = repetition.item_id(caller.task_id(task_of_conversation(name)), 0)
    since = repetition.since(immediate=True) if repetition.key is None else datetime.min.replace(tzinfo=UTC)
    new, added = list(_stored(body.items, identity, datetime.now(UTC))), list[StoredItem]()

    def change(record: StoredConversation, _: datetime) -> StoredConversation:
        again = repetition.may_repeat
        known = [one for one in record.items if again and one.request == identity and one.added_at >= since]
        if known and [_content(one) for one in known] != [_content(one) for one in new]:
            raise Problem(422, "idempotency_key_reused", "the key was used for other items", "use another key")
        added[:] = known or new
        return record if known else record.with_items(new)

    _change(gateway, caller, name, change, of_items=True)
    return [one.item for one in added]


def _stored(items: Sequence[JsonObject], request: str, now: datetime) -> Iterator[StoredItem]:
    """Yield the items as they are stored: with ids of their own. Raise Problem for one that no message could bring."""
    for index, item in enumerate(items):
        if isinstance(input_entry(item, f"items.{index}"), Referred):
            raise wrong_parameter(f"items.{index}", "a reference is no item", "send the content of the item")
        kind = str(item.get("type") or "message")
        shown = {**item, "type": kind, "id": f"{_PREFIXES.get(kind, 'item')}_{uuid.uuid4().hex}", "status": "completed"}
        if kind == "message" and isinstance(text := item.get("content"), str):
            said: JsonObject = {"type": "input_text", "text": text}
            shown["content"] = [text_part(text) if item["role"] == "assistant" else said]
        yield StoredItem(item=shown, request=request, added_at=now)


def _content(one: StoredItem) -> dict[str, Any]:
    return {name: value for name, value in one.item.items() if name != "id"}
