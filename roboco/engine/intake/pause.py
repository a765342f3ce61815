"""hold: pause a task, let it make one step, and have it go on.

A hold stands in the inbox for as long as it counts. What ends it names it, so that no clock is compared, and so that a
message which comes again, late, ends nothing that was not there when it was sent.
"""

from roboco.domain.ids import check_task_id
from roboco.domain.inbox.item import Hold, Item, Resume, read_item
from roboco.domain.paths import inbox_path, item_path
from roboco.engine.engine import Engine
from roboco.engine.intake.accept import check_open, receive, stored
from roboco.engine.record import recover


def pause(engine: Engine, task_id: str, item_id: str) -> None:
    """Let the task begin no further step; what is being done comes to its end. UsageError if the task has ended."""
    if not _came_before(engine, task_id, item_id):
        receive(engine, task_id, Hold(item_id=item_id, created_at=engine.now()))


def step(engine: Engine, task_id: str, item_id: str) -> None:
    """Let the task make one step, or end the one that it is at, and hold it then. UsageError if the task has ended."""
    if _came_before(engine, task_id, item_id):
        return
    task = recover.load(engine, task_id)
    until = 1 if task is None else task.seq + 1
    hold = Hold(item_id=item_id, created_at=engine.now(), until=until, ends=_holds(engine, task_id))
    receive(engine, task_id, hold)


def resume(engine: Engine, task_id: str, item_id: str) -> None:
    """Let a paused task go on; one that is not paused stays as it is. UsageError if the task has ended."""
    if not _came_before(engine, task_id, item_id):
        receive(engine, task_id, Resume(item_id=item_id, created_at=engine.now(), ends=_holds(engine, task_id)))


def _came_before(engine: Engine, task_id: str, item_id: str) -> bool:
    """Whether the item was accepted before: then it is announced again, in case that got lost."""
    check_task_id(task_id)
    before = stored(engine, task_id, item_id)
    if before is None:
        check_open(engine, task_id)
        return False
    receive(engine, task_id, before)
    return True


def _holds(engine: Engine, task_id: str) -> tuple[str, ...]:
    items: list[Item] = []
    for name in engine.files.names(inbox_path(task_id)):
        data = engine.files.get(item_path(task_id, name.removesuffix(".json")))
        if data is not None:
            items.append(read_item(data))
    return tuple(item.item_id for item in items if isinstance(item, Hold))
