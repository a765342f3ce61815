"""pause: pause a task, let it make one step, and resume it.

A pause stays in the inbox as long as it counts. The item that ends a pause names it, so no clocks are compared. So a
late repetition of a resumption does not end a pause that was set after the resumption was first sent.
"""

from roboco.domain.ids import check_task_id
from roboco.domain.inbox.item import Item, Pause, Resume, parse_item
from roboco.domain.paths import inbox_path, item_path
from roboco.engine.accept.accept_item import accept_item, check_open, stored_item
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.engine.record import recover


def pause(engine: Engine, task_id: str, item_id: str, by: str | None = None) -> None:
    """Pause the task after the step in progress. Raise UsageError if the task has ended."""
    if not _already_accepted(engine, task_id, item_id):
        pause_item = Pause(item_id=item_id, created_at=engine.now(), by=by)
        accept_item(engine, task_id, pause_item, lookup="none found")


def step(engine: Engine, task_id: str, item_id: str, by: str | None = None) -> None:
    """Let the task make one step, or finish the one in progress, and pause it. Raise UsageError if it has ended."""
    if _already_accepted(engine, task_id, item_id):
        return
    task = recover.load_task(engine, task_id)
    until = 1 if task is None else task.position.seq + 1
    superseded = _pause_ids(engine.workspace, task_id)
    pause_item = Pause(item_id=item_id, created_at=engine.now(), by=by, until=until, supersedes=superseded)
    accept_item(engine, task_id, pause_item, lookup="none found")


def resume(engine: Engine, task_id: str, item_id: str, by: str | None = None) -> None:
    """Resume a paused task. Change nothing if it is not paused. Raise UsageError if the task has ended."""
    if not _already_accepted(engine, task_id, item_id):
        superseded = _pause_ids(engine.workspace, task_id)
        resume_item = Resume(item_id=item_id, created_at=engine.now(), by=by, supersedes=superseded)
        accept_item(engine, task_id, resume_item, lookup="none found")


def _already_accepted(engine: Engine, task_id: str, item_id: str) -> bool:
    """Return True if the item was accepted before, and announce it again in case that message was lost."""
    check_task_id(task_id)
    before = stored_item(engine.workspace, task_id, item_id)
    if before is None:
        check_open(engine, task_id)
        return False
    accept_item(engine, task_id, before)
    return True


def _pause_ids(workspace: WorkspaceRecords, task_id: str) -> tuple[str, ...]:
    items: list[Item] = []
    for name in workspace.files.names(inbox_path(task_id)):
        data = workspace.files.get(item_path(task_id, name.removesuffix(".json")))
        if data is not None:
            items.append(parse_item(data))
    return tuple(item.item_id for item in items if isinstance(item, Pause))
