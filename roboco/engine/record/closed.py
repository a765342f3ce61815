"""closed: whether a task that has ended is closed.

    end in Redis, and in the stream ─► marker: closing ─► closed ─► task.json, and so the result ─► no marker

A caller that acts between the first and the last of these acts on a task that has ended, although its workspace does
not show that yet. As a rule this takes some ten requests to the workspace.
"""

from roboco.domain.paths import OPENED, open_marker_path
from roboco.domain.task_summary import TaskSummary
from roboco.engine.engine import Engine
from roboco.engine.retry import TaskClosing, after_close
from roboco.ports.snapshot import Phase


def closed_summary(engine: Engine, task_id: str) -> TaskSummary:
    """Return the summary of the task in its workspace. If the task has ended, wait until it is complete.

    Raise UsageError if there is no such task, and TransientError if it is not closed in some seconds.
    Cost: two requests, one after the other, and a read of Redis for an open task.
    """
    return after_close(engine.clock, lambda: _summary_unless_closing(engine, task_id))


def _summary_unless_closing(engine: Engine, task_id: str) -> TaskSummary:
    marker = engine.workspace.files.get(open_marker_path(task_id))  # first: it goes after the summary shows the end
    summary = engine.workspace.summaries.require(task_id)
    if marker is None:
        return summary
    status = summary.status
    if not status.ended and marker == OPENED:
        task = engine.tasks.task_store.load(task_id, 1)
        if task is None or task.position.phase is not Phase.END:
            return summary
        status = task.position.status
    named = f" ({status})" if status.ended else ""
    raise TaskClosing(
        f"task {task_id!r} has ended{named}, and is not closed yet; try again later, and check that a coordinator runs"
    )
