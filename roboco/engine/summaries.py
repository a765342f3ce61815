"""Summaries: the stored summary of each task, computed from its history and events if it cannot be read.

`task.json` is derived data. If it is broken, a coordinator replaces that of an open task, and each reader computes that
of an ended task.
"""

from pydantic import ValidationError

from roboco.domain.history.state import fold
from roboco.domain.paths import CLOSED, events_path, open_marker_path, summary_path
from roboco.domain.session.session import title_of
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import TaskEnded
from roboco.domain.task_summary import TaskSummary, parse_summary
from roboco.engine.frozen_teams import FrozenTeams
from roboco.engine.tombstones import erased_error
from roboco.errors import CorruptHistory, NotFound, UsageError
from roboco.ports.workspace import Files, Histories

_TASK_END = b'"event_task_end"'


class Summaries:
    """The summaries of tasks in the workspace."""

    def __init__(self, files: Files, histories: Histories, frozen_teams: FrozenTeams) -> None:
        self._files = files
        self._histories = histories
        self._frozen_teams = frozen_teams

    def get(self, task_id: str) -> TaskSummary | None:
        """Return the summary in the workspace, or None if there is none.

        Raise CorruptHistory if it cannot be read, and the history and events do not suffice to compute it.
        """
        data = self._files.get(summary_path(task_id))
        return None if data is None else parse_summary(data) or self._compute(task_id)

    def require(self, task_id: str) -> TaskSummary:
        """Return the summary in the workspace. Raise UsageError if there is no such task, or if it was erased."""
        summary = self.get(task_id)
        if summary is None:
            raise self.missing(task_id)
        return summary

    def missing(self, task_id: str) -> UsageError:
        """Return the error of a task that has no summary: it was erased, or there is none. Cost: one read."""
        return erased_error(self._files, task_id) or NotFound(f"no task {task_id!r} in this workspace")

    def is_closed(self, task_id: str) -> bool:
        """Return True if the task has been closed, False if it is open or unknown.

        A submission may write the marker meanwhile: it adds the items of the inbox after that.
        """
        return self.is_closed_by(task_id, self._files.get(open_marker_path(task_id)))

    def is_closed_by(self, task_id: str, marker: bytes | None) -> bool:
        """Return the same as `is_closed` for a task whose marker was read, which is None if there is none."""
        if marker is not None:
            return marker == CLOSED
        summary = self.get(task_id)
        return summary is not None and summary.status.ended

    def _compute(self, task_id: str) -> TaskSummary:
        # read the marker first: a closed task has all of its steps, and a task that ends after this counts as running
        is_open = self._files.get(open_marker_path(task_id)) not in (None, CLOSED)
        steps = list(self._histories.read(task_id))
        if not steps:
            raise CorruptHistory(_unreadable_message(task_id, "the history has no steps"))
        end = None if is_open else self._last_end(task_id)
        if end is None and not is_open:
            raise CorruptHistory(_unreadable_message(task_id, f"{events_path(task_id)!r} holds no end of the task"))
        state = fold(steps)
        return TaskSummary(
            task_id=task_id,
            team=self._frozen_teams.get(task_id).name,
            title=title_of(steps[0]),
            status=TaskStatus.RUNNING if end is None else end.status,
            reason="" if end is None else end.reason,
            retry_of=self._frozen_teams.retry_of(task_id, steps[0]),
            steps=state.steps,
            tokens_in=state.tokens_in,
            tokens_out=state.tokens_out,
            cost=state.cost,
            agents=state.agents,
            tools=state.tools,
            limit_overrides=None if end is None else state.limit_overrides,
            created_at=self._frozen_teams.started_at(task_id, state, steps[0]) or steps[0].created_at,
            updated_at=steps[-1].created_at if end is None else end.timestamp,
        )

    def _last_end(self, task_id: str) -> TaskEnded | None:
        """Return the last end in the stored events, or None if there is none."""
        lines = (self._files.get(events_path(task_id)) or b"").splitlines()
        for line in reversed(lines):
            if _TASK_END in line:
                try:
                    return TaskEnded.model_validate_json(line)
                except ValidationError:  # another event that quotes it
                    continue
        return None


def _unreadable_message(task_id: str, why: str) -> str:
    return (
        f"{summary_path(task_id)!r} cannot be read, and cannot be computed, because {why}; restore these files "
        "from a backup or an older version"
    )
