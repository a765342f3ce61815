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
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request

from roboco.client.conversations import Change
from roboco.client.task import Task
from roboco.domain.canonical_json import sha256
from roboco.domain.conversation import Conversation, Metadata, StoredItem
from roboco.errors import NotFound, UsageError
from roboco.gateway.access import Caller
from roboco.gateway.gateway import Gateway, TheGateway
from roboco.gateway.idempotency import NewTaskId
from roboco.gateway.openai.bodies import ConversationBody, ItemsBody, JsonObject, MetadataBody, Order
from roboco.gateway.openai.ids import conversation_id, task_of_conversation, unknown_conversation
from roboco.gateway.openai.outputs import OutputItem, text_part
from roboco.gateway.openai.problems import OpenAIRoute, wrong_parameter
from roboco.gateway.openai.reading import conversation_items, page_of
from roboco.gateway.openai.repetition import Repetition, repetition_of
from roboco.gateway.openai.response_items import input_entries
from roboco.gateway.openai.turn import Referred
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import Problem

router = APIRouter(prefix="/openai/v1", tags=["openai"], route_class=OpenAIRoute)
_PREFIXES: Final = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}


@dataclass(frozen=True)
class Found:
    """A conversation that the caller reaches: its task, its record, or both."""

    task_id: str
    """The id of its task, as the caller names it."""
    whole_id: str
    task: Task | None
    record: Conversation | None

    @property
    def created_at(self) -> datetime:
        """The time of its record, or of its task."""
        if self.record is not None:
            return self.record.created_at
        return datetime.now(UTC) if self.task is None else self.task.stored_summary().created_at

    def shown(self) -> dict[str, Any]:
        """Return the conversation as a JSON object."""
        return {
            "id": conversation_id(self.task_id),
            "object": "conversation",
            "created_at": int(self.created_at.timestamp()),
            "metadata": {} if self.record is None else self.record.metadata,
        }

    @property
    def items(self) -> list[OutputItem]:
        """The items that precede the responses."""
        return [] if self.record is None else [one.item for one in self.record.items]

    def all_items(self) -> list[OutputItem]:
        """Return all items. It reads the history of the task."""
        said = () if self.task is None else conversation_items(self.task, self.task_id, not self.items)
        return [*self.items, *said]


def find_conversation(gateway: Gateway, caller: Principal, name: str) -> Found:
    """Return the conversation of an id. Raise Problem `not_found` if the caller has none. It blocks.

    One without a task belongs to its caller alone if that is limited to some teams.
    """
    task_id, conversations = task_of_conversation(name), gateway.orchestrator.conversations
    try:
        task, problem = gateway.find_task(caller, task_id), None
    except Problem as unknown:
        if unknown.status != 404:
            raise
        task, problem = None, unknown
    try:
        whole_id = caller.task_id(task_id)
    except Problem:
        raise unknown_conversation(name) from None
    record = conversations.find(whole_id)
    known = task is not None or (record is not None and (caller.teams is None or record.by == caller.by))
    if not known or (record is not None and record.deleted) or (problem is not None and gateway.exists(whole_id)):
        raise unknown_conversation(name)
    return Found(task_id, whole_id, task, record)


@router.post("/conversations", summary="Create a conversation")
async def create_conversation(
    request: Request, body: ConversationBody, caller: Caller, gateway: TheGateway
) -> dict[str, Any]:
    """Create a conversation, with items that precede its first response. It has no task yet."""
    caller.require(Scope.SUBMIT)
    repetition, now = await repetition_of(request, caller), datetime.now(UTC)
    keyed = repetition.key is not None
    task_id = repetition.new_task_id("conversation") if keyed else f"task_{uuid.uuid4().hex}"
    identity = repetition.digest if keyed else uuid.uuid4().hex
    empty = Conversation(by=caller.by, request=identity, created_at=now, changed_at=now, metadata=body.metadata or {})
    new = empty.with_items(list(_stored(body.items or (), repetition.item_id(task_id, 0), now)))
    whole_id = caller.task_id(task_id)
    stored = await gateway.create_task(
        caller, NewTaskId(whole_id, keyed), lambda: gateway.orchestrator.conversations.create(whole_id, new)
    )
    return Found(task_id, whole_id, None, stored).shown()


@router.get("/conversations/{name}", summary="Get a conversation")
async def get_conversation(name: str, caller: Caller, gateway: TheGateway) -> dict[str, Any]:
    """Return a conversation."""
    caller.require(Scope.READ)
    return await gateway.calls.reads.run(lambda: find_conversation(gateway, caller, name).shown())


@router.post("/conversations/{name}", summary="Change the metadata of a conversation")
async def update_conversation(name: str, body: MetadataBody, caller: Caller, gateway: TheGateway) -> dict[str, Any]:
    """Replace the metadata of a conversation."""
    caller.require(Scope.CONTROL)
    return await gateway.calls.controls.run(_update, gateway, caller, name, body.metadata or {})


@router.delete("/conversations/{name}", summary="Delete a conversation")
async def delete_conversation(request: Request, name: str, caller: Caller, gateway: TheGateway) -> dict[str, Any]:
    """Delete a conversation: its items, or, if it has responses, stop its task, whose history stays, and hide it."""
    caller.require(Scope.CONTROL)
    try:
        await gateway.calls.controls.run(_delete, gateway, caller, name)
    except Problem as problem:
        if problem.status != 404 or not (await repetition_of(request, caller)).attempts:
            raise
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
    try:
        return await gateway.calls.controls.run(_delete_item, gateway, caller, name, item_id)
    except NotFound:
        if not (await repetition_of(request, caller)).attempts:
            raise
        return await get_conversation(name, caller, gateway)


async def _all_items(gateway: Gateway, caller: Principal, name: str) -> list[OutputItem]:
    return await gateway.calls.histories.run(lambda: find_conversation(gateway, caller, name).all_items())


def _change(gateway: Gateway, caller: Principal, found: Found, change: Change) -> dict[str, Any]:
    """Change the record, which a conversation that began with a response gets now. Return the conversation."""
    new = Conversation(by=caller.by, created_at=found.created_at, changed_at=found.created_at)
    changed = gateway.orchestrator.conversations.change(
        found.whole_id, caller.by, change, None if found.task is None else new
    )
    return replace(found, record=changed).shown()


def _update(gateway: Gateway, caller: Principal, name: str, metadata: Metadata) -> dict[str, Any]:
    found = find_conversation(gateway, caller, name)
    return _change(gateway, caller, found, lambda record: record.model_copy(update={"metadata": metadata}))


def _delete(gateway: Gateway, caller: Principal, name: str) -> None:
    """Stop the task, if there is one, and empty and hide the record."""
    found = find_conversation(gateway, caller, name)
    if found.task is not None and not found.task.summary().status.ended:
        with suppress(UsageError):  # it has ended at this moment
            found.task.stop("its conversation was deleted", f"oa-deleted-{sha256(found.whole_id)[:32]}", by=caller.by)
    _change(gateway, caller, found, Conversation.emptied)


def _add(gateway: Gateway, caller: Principal, name: str, body: ItemsBody, repetition: Repetition) -> list[OutputItem]:
    """Add the items. Return them, or those that an earlier attempt at the request has added."""
    found = _open(gateway, caller, name)
    identity = repetition.item_id(found.whole_id, 0)
    since = repetition.since(immediate=True) if repetition.key is None else found.created_at
    new, added = list(_stored(body.items, identity, datetime.now(UTC))), list[StoredItem]()

    def change(record: Conversation) -> Conversation:
        known = record.added_by(identity, since) if repetition.may_repeat else []
        if known and [_content(one) for one in known] != [_content(one) for one in new]:
            raise Problem(422, "idempotency_key_reused", "the key was used for other items", "use another key")
        added[:] = known or new
        return record if known else record.with_items(new)

    gateway.orchestrator.conversations.change_items(found.whole_id, caller.by, change)
    return [one.item for one in added]


def _delete_item(gateway: Gateway, caller: Principal, name: str, item_id: str) -> dict[str, Any]:
    found = _open(gateway, caller, name)
    changed = gateway.orchestrator.conversations.change_items(
        found.whole_id, caller.by, lambda record: record.without_item(item_id)
    )
    return replace(found, record=changed).shown()


def _open(gateway: Gateway, caller: Principal, name: str) -> Found:
    """Return a conversation whose items change. Raise Problem `conflict` if it has a response."""
    found = find_conversation(gateway, caller, name)
    if found.task is not None:
        detail = f"conversation {name[:200]!r} has responses: it is the history of a task, kept as a whole"
        remedy = "send messages with POST /responses; previous_response_id of an earlier response begins a branch"
        raise Problem(409, "conflict", detail, remedy)
    return found


def _stored(items: Sequence[JsonObject], request: str, now: datetime) -> Iterator[StoredItem]:
    """Yield the items as they are stored: with ids of their own. Raise Problem for one that no message could bring."""
    for index, entry in enumerate(input_entries(items, "items")):
        if isinstance(entry, Referred):
            raise wrong_parameter(f"items.{index}", "a reference is no item", "send the content of the item")
    for item in items:
        kind = str(item.get("type") or "message")
        shown = {**item, "type": kind, "id": f"{_PREFIXES.get(kind, 'item')}_{uuid.uuid4().hex}", "status": "completed"}
        if kind == "message" and isinstance(text := item.get("content"), str):
            said: JsonObject = {"type": "input_text", "text": text}
            shown["content"] = [text_part(text) if item["role"] == "assistant" else said]
        yield StoredItem(item=shown, request=request, added_at=now)


def _content(one: StoredItem) -> dict[str, Any]:
    return {name: value for name, value in one.item.items() if name != "id"}
