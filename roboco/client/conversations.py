"""Conversations: the records that the gateway keeps of conversations of OpenAI's API."""

from collections.abc import Sequence
from pathlib import Path

from roboco.client.audit import Act, audited
from roboco.domain.conversation import Conversation, StoredItem
from roboco.engine.accept import conversations
from roboco.engine.accept.conversations import Change
from roboco.engine.engine import Engine

__all__ = ["Change", "Conversations"]


class Conversations:
    """The records by the whole id of their task. All calls block."""

    def __init__(self, engine: Engine, audit_log: Path | None) -> None:
        self._engine = engine
        self._audit_log = audit_log

    def find(self, task_id: str) -> Conversation | None:
        """Return the record, or None if there is none."""
        return conversations.find(self._engine.workspace, task_id)

    def create(self, task_id: str, new: Conversation) -> Conversation:
        """Store a new record. Return it, or that of the same request. Raises StateConflict if there is another one."""
        return conversations.create(self._engine, task_id, new)

    def begin(self, task_id: str, items: Sequence[StoredItem]) -> Conversation:
        """Let a first message take the items as they were read. Raises StateConflict if they have changed."""
        now = self._engine.now()
        return conversations.change(self._engine, task_id, lambda found: found.begun(items, now))

    def release(self, task_id: str, begun: Conversation) -> None:
        """Let the items change again: the first message was refused. A later one keeps them."""

        def released(found: Conversation) -> Conversation:
            return found.model_copy(update={"begun_at": None}) if found.begun_at == begun.begun_at else found

        conversations.change(self._engine, task_id, released)

    def change(self, task_id: str, by: str, changed: Change, new: Conversation | None = None) -> Conversation:
        """Change a record, and return it. `new` is that of a task that has none. Raises NotFound if there is none."""
        with audited(Act("change_conversation", by, task_id), self._audit_log):
            return conversations.change(self._engine, task_id, changed, new)

    def change_items(self, task_id: str, by: str, changed: Change) -> Conversation:
        """Change the items of a record. Raises StateConflict if a first message has them."""
        with audited(Act("change_conversation", by, task_id), self._audit_log):
            return conversations.change_items(self._engine, task_id, changed)
