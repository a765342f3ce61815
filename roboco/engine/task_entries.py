"""task_entries: keep the task index up to date, without ever failing a task because of it.

    submission, fork ─► queued        first turn, step after a wait ─► running
    archive ─► waiting                close ─► ended                   sweeper's pass ─► the same again

An entry is written after the operation that it describes. If the worker dies before that, or the index does not
answer, the next pass of the sweeper writes the entry. An entry carries the task's epoch, so a late one is ignored. The
end is the last entry: until the index has taken it, the closed task stays in the schedule.
"""

import logging

from roboco.domain.task_entry import TaskEntry
from roboco.engine.engine import TaskStores
from roboco.errors import TransientError

_log = logging.getLogger(__name__)


def put_entry(tasks: TaskStores, entry: TaskEntry) -> bool:
    """Store the entry in the task index. Return False if the index does not answer."""
    try:
        tasks.task_index.put([entry])
    except TransientError as error:
        _log.debug("task %s is not entered in the task index; a later pass enters it: %s", entry.task_id, error)
        return False
    return True


def drop_entry(tasks: TaskStores, task_id: str) -> None:
    """Remove the entry of a task that has disappeared without an end, as when an operator abandons it."""
    try:
        tasks.task_index.remove(task_id, only_open=True)
    except TransientError as error:
        _log.debug("task %s is not removed from the task index: %s", task_id, error)
