"""Conversation: what a client of OpenAI's API has stored of a conversation beside the history of its task."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from pydantic import Field

from roboco.domain.canonical_json import json_bytes
from roboco.domain.schema import RecordedCaller, RecordModel
from roboco.errors import NotFound, StateConflict, UsageError

MAX_ITEMS: Final = 1000
MAX_ITEM_BYTES: Final = 1024 * 1024
"""The most bytes of all items, as JSON."""
BEGIN_SECONDS: Final = 600
"""Seconds for which the items stay as they are while a first message brings them to a task. Then it has failed."""
Metadata = dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]]


class StoredItem(RecordModel):
    """An item that a client has added."""

    item: dict[str, Any]
    request: str
    """The id of the request that added it, by which a repetition is recognised."""
    added_at: datetime


class Conversation(RecordModel):
    """The record of a conversation, a file of its task. The task begins with the first message."""

    by: RecordedCaller = None
    request: str = ""
    """The identity of the request that created it."""
    created_at: datetime
    changed_at: datetime
    metadata: dict[str, str] = {}
    items: tuple[StoredItem, ...] = ()
    """The items before the first message."""
    begun_at: datetime | None = None
    """The time at which a first message has taken the items."""
    deleted: bool = False

    def added_by(self, request: str, since: datetime) -> list[StoredItem]:
        """Return the items that a request has added since this time."""
        return [one for one in self.items if one.request == request and one.added_at >= since]

    def with_items(self, added: Sequence[StoredItem]) -> "Conversation":
        """Return the conversation with these items. Raise UsageError if it is full."""
        items = (*self.items, *added)
        if len(items) > MAX_ITEMS or json_bytes([one.item for one in items]) > MAX_ITEM_BYTES:
            raise UsageError(f"the conversation is full: at most {MAX_ITEMS} items and {MAX_ITEM_BYTES // 1024} KiB")
        return self.model_copy(update={"items": items})

    def without_item(self, item_id: str) -> "Conversation":
        """Return the conversation without this item. Raise NotFound if it has none."""
        items = tuple(one for one in self.items if one.item["id"] != item_id)
        if len(items) == len(self.items):
            raise NotFound(f"the conversation has no item {item_id[:200]!r}")
        return self.model_copy(update={"items": items})

    def emptied(self) -> "Conversation":
        """Return the conversation without its content. Nothing changes it any more."""
        return self.model_copy(update={"items": (), "metadata": {}, "deleted": True})

    def begun(self, items: Sequence[StoredItem], now: datetime) -> "Conversation":
        """Return the conversation whose items a first message takes. Raise StateConflict if it has others by now."""
        if tuple(items) != self.items:
            raise StateConflict("the items of the conversation have changed at this moment; send the message again")
        return self.model_copy(update={"begun_at": now})

    def is_taken(self, now: datetime) -> bool:
        """Return True if a first message may have its items."""
        return self.begun_at is not None and now - self.begun_at < timedelta(seconds=BEGIN_SECONDS)
