"""conversations: the records of conversations of OpenAI's API, whose task begins with their first message.

    create ─► TASK/conversation.json ─► items, metadata ─► first message: begun ─► task with the items as its history
                          └── LIFETIME without a change or a task ─► removed

Each change replaces the file only if no other one did meanwhile. From `begun` on, no item is added or removed: else one
could be accepted that the task lacks. The record is a file of the task: whatever erases the task removes it. After a
loss of Redis a record that never changes again stays until it is erased.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from roboco.domain.conversation import Conversation
from roboco.domain.ids import check_task_id
from roboco.domain.paths import EARLY_FILES_PREFIX, conversation_path, summary_path
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.engine.tombstones import check_not_erasing
from roboco.errors import NotFound, StateConflict
from roboco.ports.memories import change_record

LIFETIME: Final = timedelta(days=30)
"""The time after its last change at which a conversation without a task is removed."""
Change = Callable[[Conversation], Conversation]


def find(workspace: WorkspaceRecords, task_id: str) -> Conversation | None:
    """Return the record, or None if there is none. Cost: one request."""
    return _parsed(workspace.files.get(conversation_path(task_id)))


def create(engine: Engine, task_id: str, new: Conversation) -> Conversation:
    """Store a new record. Return it, or that of the same request."""
    check_not_erasing(engine.workspace.files, check_task_id(task_id))
    engine.tasks.schedule.set(f"{EARLY_FILES_PREFIX}{task_id}", LIFETIME.total_seconds())
    new = new.model_copy(update={"changed_at": engine.now()})
    if engine.workspace.files.create(conversation_path(task_id), new.model_dump_json().encode()):
        return new
    known = find(engine.workspace, task_id)
    if known is None or known.request != new.request:
        raise StateConflict(f"conversation {task_id!r} was created by another request")
    return known


def change(engine: Engine, task_id: str, changed: Change, new: Conversation | None = None) -> Conversation:
    """Replace the record by the changed one, and return it. `new` is the record of a task that has none.

    `changed` may run several times. Raise NotFound if there is no record.
    """
    after = list[Conversation]()

    def replaced(record: Conversation | None) -> Conversation:
        if (found := record or new) is None or found.deleted:
            raise NotFound(f"no conversation {task_id!r}")
        kept = changed(found)
        after[:] = [kept if kept == record else kept.model_copy(update={"changed_at": engine.now()})]
        return after[0]

    engine.tasks.schedule.set(f"{EARLY_FILES_PREFIX}{task_id}", LIFETIME.total_seconds())
    change_record(engine.workspace.files, conversation_path(task_id), _parsed, replaced)
    return after[0]


def change_items(engine: Engine, task_id: str, changed: Change) -> Conversation:
    """Change the items. Raise StateConflict if a first message has them."""

    def checked(record: Conversation) -> Conversation:
        if record.is_taken(engine.now()) or _has_task(engine.workspace, task_id):
            raise StateConflict("the conversation has a message by now: it grows by its responses")
        return changed(record)

    return change(engine, task_id, checked)


def is_without_task(workspace: WorkspaceRecords, task_id: str) -> bool:
    """Return True if the id has a conversation, and no task. Cost: two requests."""
    return workspace.files.size(conversation_path(task_id)) is not None and not _has_task(workspace, task_id)


def expire(engine: Engine, task_id: str) -> None:
    """Empty the record if it has no task and was not changed for its lifetime. Remove an empty one, or look again."""
    record = find(engine.workspace, task_id)
    if record is None or _has_task(engine.workspace, task_id):
        return
    left = (record.changed_at + LIFETIME - engine.now()).total_seconds()
    if left > 0:
        engine.tasks.schedule.set(f"{EARLY_FILES_PREFIX}{task_id}", left)
    elif record.deleted:
        engine.workspace.files.delete(conversation_path(task_id))
    else:
        change(engine, task_id, lambda now: now.emptied() if now == record else now)


def _has_task(workspace: WorkspaceRecords, task_id: str) -> bool:
    return workspace.files.size(summary_path(task_id)) is not None


def _parsed(data: bytes | None) -> Conversation | None:
    return None if data is None else Conversation.model_validate_json(data)
