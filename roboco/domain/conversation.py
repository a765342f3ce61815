"""StoredConversation: what a client of OpenAI's API has stored of a conversation beside the history of its task."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from pydantic import Field

from roboco.domain.canonical_json import json_bytes
from roboco.domain.schema import RecordedCaller, RecordModel
from roboco.errors import NotFound, StateConflict, UsageError

MAX_ITEMS: Final = 1000
MAX_FIRST: Final = 100
"""The most first messages that are known: of several at the same moment, the task begins with one."""
MAX_ITEM_BYTES: Final = 1024 * 1024
"""The most bytes of all items, as JSON."""
BEGIN_TIME: Final = timedelta(minutes=10)
"""The time for which the items stay as they are after a first message has taken them. Without a task it was refused."""
Metadata = dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]]


class StoredItem(RecordModel):
    """An item that a client has added."""

    item: dict[str, Any]
    request: str
    """The id of the request that added it, by which a repetition is recognised."""
    added_at: datetime


class StoredConversation(RecordModel):
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
    first: str = ""
    """A line with the id and the digest of each message that has taken them: the task begins with one of these."""
    deleted: bool = False

    def with_items(self, added: Sequence[StoredItem]) -> "StoredConversation":
        """Return the conversation with these items. Raise UsageError if it is full."""
        items = (*self.items, *added)
        if len(items) > MAX_ITEMS or json_bytes([one.item for one in items]) > MAX_ITEM_BYTES:
            raise UsageError(f"the conversation is full: at most {MAX_ITEMS} items and {MAX_ITEM_BYTES // 1024} KiB")
        return self.model_copy(update={"items": items})

    def without_item(self, item_id: str, again: bool) -> "StoredConversation":
        """Return the conversation without this item. Raise NotFound if it has none, unless it is deleted again."""
        items = tuple(one for one in self.items if one.item["id"] != item_id)
        if len(items) == len(self.items) and not again:
            raise NotFound(f"the conversation has no item {item_id[:200]!r}")
        return self.model_copy(update={"items": items})

    def begun(self, items: Sequence[StoredItem], first: str, now: datetime) -> "StoredConversation":
        """Return the conversation whose items a first message takes. Raise StateConflict if it has others by now."""
        if tuple(items) != self.items:
            raise StateConflict("the items of the conversation have changed at this moment; send the message again")
        others = [line for line in self.first.splitlines() if line != first][-MAX_FIRST:]
        return self.model_copy(update={"begun_at": now, "first": "\n".join([*others, first])})

    def emptied(self) -> "StoredConversation":
        """Return the conversation without its content. Nothing changes it any more."""
        return self.model_copy(update={"items": (), "metadata": {}, "deleted": True})


Change = Callable[[StoredConversation, datetime], StoredConversation]
"""A change of a record, at this time. It may run several times."""
