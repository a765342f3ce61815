"""summaries: the stored summary of a task, computed again from its history and events if it cannot be read.

`task.json` is derived: of an open task a coordinator writes it anew, of an ended task each reader computes it again.
"""

from pydantic import ValidationError

from roboco.domain.history.state import fold
from roboco.domain.paths import CLOSED, events_path, open_path, summary_path
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import TaskEnded
from roboco.domain.task_summary import TaskSummary, read_summary
from roboco.engine.engine import Engine
from roboco.errors import CorruptHistory, UsageError

_TASK_END = b'"event_task_end"'


def stored_summary(engine: Engine, task_id: str) -> TaskSummary | None:
    """Return the summary in the workspace; None if there is none. CorruptHistory if nothing says what it was."""
    data = engine.files.get(summary_path(task_id))
    return None if data is None else read_summary(data) or _computed(engine, task_id)


def known_summary(engine: Engine, task_id: str) -> TaskSummary:
    """Return the summary in the workspace; UsageError if there is no such task."""
    summary = stored_summary(engine, task_id)
    if summary is None:
        raise UsageError(f"no task {task_id!r} in this workspace")
    return summary


def has_ended(engine: Engine, task_id: str) -> bool:
    """Return True if the task has been closed; False if there is none.

    Its marker may have come since: a submission notes the items that it finds after that.
    """
    marker = engine.files.get(open_path(task_id))
    if marker is not None:
        return marker == CLOSED
    summary = stored_summary(engine, task_id)
    return summary is not None and summary.status.ended


def _computed(engine: Engine, task_id: str) -> TaskSummary:
    # the marker first: a closed task has all of its steps, and one that ends from here on counts as running
    is_open = engine.files.get(open_path(task_id)) not in (None, CLOSED)
    steps = list(engine.histories.read(task_id))
    if not steps:
        raise CorruptHistory(_lost(task_id, "the history has no steps"))
    end = None if is_open else _end(engine, task_id)
    if end is None and not is_open:
        raise CorruptHistory(_lost(task_id, f"{events_path(task_id)!r} does not say how the task ended"))
    state = fold(steps)
    return TaskSummary(
        task_id=task_id,
        team=engine.teams.get(task_id).name,
        status=TaskStatus.RUNNING if end is None else end.status,
        reason="" if end is None else end.reason,
        steps=state.steps,
        tokens_in=state.tokens_in,
        tokens_out=state.tokens_out,
        cost=state.cost,
        agents=state.agents,
        tools=state.tools,
        created_at=engine.teams.began(task_id, state) or steps[0].created_at,
        updated_at=steps[-1].created_at if end is None else end.timestamp,
    )


def _end(engine: Engine, task_id: str) -> TaskEnded | None:
    """Return the last end in the stored events, if there is one."""
    lines = (engine.files.get(events_path(task_id)) or b"").splitlines()
    for line in reversed(lines):
        if _TASK_END in line:
            try:
                return TaskEnded.model_validate_json(line)
            except ValidationError:  # another event that quotes it
                continue
    return None


def _lost(task_id: str, why: str) -> str:
    return (
        f"{summary_path(task_id)!r} cannot be read, and cannot be computed again, because {why}; restore these files "
        "from a backup or an older version"
    )
