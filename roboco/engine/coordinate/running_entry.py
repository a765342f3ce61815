"""running_entry: the entry of a running task in the task index, with what it asks of a person or client meanwhile."""

import logging

from roboco.domain.history.lineage import parent_of
from roboco.domain.session.session import title_of
from roboco.domain.status import TaskStatus
from roboco.domain.task_entry import TaskEntry, short_reason
from roboco.engine.accept.sub_tasks import awaited_decision
from roboco.engine.engine import Engine
from roboco.engine.task_entries import put_entry
from roboco.errors import RobocoError
from roboco.ports.snapshot import Snapshot

_log = logging.getLogger(__name__)


def index_as(engine: Engine, task_id: str, task: Snapshot, status: TaskStatus, epoch: int) -> None:
    """Enter an open task in the task index, with a status that it has since this epoch."""
    awaited, reason = "", ""
    if epoch == task.position.epoch:
        awaited = awaited_decision(engine, task_id, task) if status is TaskStatus.RUNNING else ""
        reason = awaited or task.position.reason
    entry = TaskEntry(
        task_id=task_id,
        team=engine.workspace.frozen_teams.get(task_id).name,
        title=title_of(task.steps.first),
        status=status,
        reason=short_reason(reason),
        waits=bool(awaited),
        steps=task.state.steps,
        tokens_in=task.state.tokens_in,
        tokens_out=task.state.tokens_out,
        cost=task.state.cost,
        created_at=task.state.started_at or task.steps.first.created_at,
        updated_at=engine.now(),
        epoch=epoch,
    )
    put_entry(engine.tasks, entry)
    if task.position.status.waiting:
        index_parents(engine, task_id, task)


def index_parents(engine: Engine, task_id: str, task: Snapshot) -> None:
    """Enter the running tasks for which this sub-task works, after a change of what it asks. It never fails this task.

    Cost: a read of Redis for each of them, and for its open sub-tasks. The sweeper's passes over them do the same.
    """
    try:
        while (parent := parent_of(task_id, task.steps.first)) is not None:
            task_id, found = parent.task_id, engine.tasks.task_store.load(parent.task_id, 1)
            if found is None or found.position.status is not TaskStatus.RUNNING:
                return
            task = found
            index_as(engine, task_id, task, TaskStatus.RUNNING, task.position.epoch)
    except (RobocoError, ValueError, KeyError) as error:
        _log.debug("task %s is not entered in the task index again; a later pass enters it: %s", task_id, error)
