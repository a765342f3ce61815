"""conversations: the records of conversations of OpenAI's API, whose task begins with their first message.

    create ─► TASK/conversation.json ─► items, metadata ─► first message: begun ─► task with the items as its history
                          └── LIFETIME without a change or a task ─► emptied ─► LIFETIME ─► removed

Each change replaces the file only if no other one did meanwhile. From `begun` on no item is added or removed: else one
could be accepted that the task lacks. The record is a file of the task: whatever erases the task removes it. After a
loss of Redis, a record that never changes again stays until it is erased.
"""

from datetime import timedelta
from typing import Final

from roboco.domain.conversation import BEGIN_TIME, Change, StoredConversation
from roboco.domain.paths import EARLY_FILES_PREFIX, conversation_path, summary_path
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.engine.workspace_records import check_not_erasing
from roboco.errors import NotFound, StateConflict
from roboco.ports.memories import change_record

LIFETIME: Final = timedelta(days=30)
"""The time after its last change at which a conversation without a task is removed."""


def find(workspace: WorkspaceRecords, task_id: str) -> StoredConversation | None:
    """Return the record, or None if there is none. Cost: one request."""
    return _parsed(workspace.files.get(conversation_path(task_id)))


def create(engine: Engine, task_id: str, new: StoredConversation) -> StoredConversation:
    """Store a new record. Return it, or that of the same request. Raise StateConflict if there is another one."""
    check_not_erasing(engine.workspace.files, task_id)
    _expect_change(engine, task_id)
    new = new.model_copy(update={"changed_at": engine.now()})
    if engine.workspace.files.create(conversation_path(task_id), new.model_dump_json().encode()):
        return new
    known = find(engine.workspace, task_id)
    if known is None or known.request != new.request:
        raise StateConflict(f"conversation {task_id!r} was created by another request")
    return known


def change(
    engine: Engine, task_id: str, changed: Change, new: StoredConversation | None = None, of_items: bool = False
) -> StoredConversation:
    """Replace the record, or the `new` one if there is none, by the changed one, and return that.

    Raise NotFound if there is none, and StateConflict for a change of items that a first message has, or may have.
    """
    after = list[StoredConversation]()

    def replaced(record: StoredConversation | None) -> StoredConversation:
        now = engine.now()
        if (found := record or new) is None or found.deleted:
            raise NotFound(f"no conversation {task_id!r}")
        begun = found.begun_at is not None and now - found.begun_at < BEGIN_TIME
        if of_items and (begun or _has_task(engine.workspace, task_id)):
            raise StateConflict("the items stay as they are: a first message has them, or may have them")
        after[:] = [changed(found, now).model_copy(update={"changed_at": now})]
        return after[0]

    _expect_change(engine, task_id)
    change_record(engine.workspace.files, conversation_path(task_id), _parsed, replaced)
    return after[0]


def is_without_task(workspace: WorkspaceRecords, task_id: str) -> bool:
    """Return True if the id has a conversation, and no task. Cost: two requests."""
    return workspace.files.size(conversation_path(task_id)) is not None and not _has_task(workspace, task_id)


def expire(engine: Engine, task_id: str) -> None:
    """Empty the record if it has no task and was not changed for its lifetime. Remove an empty one, or look again."""
    record = find(engine.workspace, task_id)
    if record is None or _has_task(engine.workspace, task_id):
        return
    left = record.changed_at + LIFETIME - engine.now()
    if left > timedelta():
        _expect_change(engine, task_id, left)
    elif record.deleted:
        engine.workspace.files.delete(conversation_path(task_id))
    else:
        change(engine, task_id, lambda found, _: found.emptied() if found == record else found)


def _expect_change(engine: Engine, task_id: str, time: timedelta = LIFETIME) -> None:
    engine.tasks.schedule.set(f"{EARLY_FILES_PREFIX}{task_id}", time.total_seconds())


def _has_task(workspace: WorkspaceRecords, task_id: str) -> bool:
    return workspace.files.size(summary_path(task_id)) is not None


def _parsed(data: bytes | None) -> StoredConversation | None:
    return None if data is None else StoredConversation.model_validate_json(data)
