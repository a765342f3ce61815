"""task_entries: keep the task index up to date, without ever failing a task because of it.

    submission, fork ─► queued        first turn, step after a wait ─► running
    archive ─► waiting                close ─► ended                   sweeper's pass ─► the same again

An entry is written after the operation that it describes. If the worker dies before that, or the index does not
answer, the next pass of the sweeper writes the entry. An entry carries the task's epoch, so a late one is ignored. The
end is the last entry: until the index has taken it, the closed task stays in the schedule.
"""

import logging

from roboco.domain.session.session import title_of
from roboco.domain.status import TaskStatus
from roboco.domain.task_entry import TaskEntry, short_reason
from roboco.engine.engine import Engine, TaskStores
from roboco.errors import TransientError
from roboco.ports.task_store import Snapshot

_log = logging.getLogger(__name__)


def put_entry(tasks: TaskStores, entry: TaskEntry) -> bool:
    """Store the entry in the task index. Return False if the index does not answer."""
    try:
        tasks.task_index.put([entry])
    except TransientError as error:
        _log.debug("task %s is not entered in the task index; a later pass enters it: %s", entry.task_id, error)
        return False
    return True


def index_as(engine: Engine, task_id: str, task: Snapshot, status: TaskStatus, epoch: int) -> None:
    """Enter an open task in the task index, with a status that it has since this epoch."""
    entry = TaskEntry(
        task_id=task_id,
        team=engine.workspace.frozen_teams.get(task_id).name,
        title=title_of(task.steps.first),
        status=status,
        reason=short_reason(task.position.reason) if status is task.position.status else "",
        steps=task.state.steps,
        tokens_in=task.state.tokens_in,
        tokens_out=task.state.tokens_out,
        cost=task.state.cost,
        created_at=task.state.started_at or task.steps.first.created_at,
        updated_at=engine.now(),
        epoch=epoch,
    )
    put_entry(engine.tasks, entry)


def drop_entry(tasks: TaskStores, task_id: str) -> None:
    """Remove the entry of a task that has disappeared without an end, as when an operator abandons it."""
    try:
        tasks.task_index.remove_open(task_id)
    except TransientError as error:
        _log.debug("task %s is not removed from the task index: %s", task_id, error)
