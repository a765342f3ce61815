"""TaskReplay: a recorded task, for commands that explain or replay it."""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import click

from roboco.cli.commands.current_summary import current_summary
from roboco.client.orchestrator import Orchestrator
from roboco.domain.decision.router import Router, route
from roboco.domain.history.step import TaskStep
from roboco.domain.replay.replay import RecordedTask
from roboco.domain.team.collaboration import Custom
from roboco.domain.team.team import Team
from roboco.domain.team.tool_difference import ToolDifference
from roboco.errors import TransientError
from roboco.settings import load_settings


class TaskReplay:
    """Reads a recorded task, and the teams and routers that may replay it."""

    def __init__(self, orchestrator: Orchestrator, task_id: str) -> None:
        self._orchestrator = orchestrator
        self.task_id = task_id
        self._newest: TaskStep | None = None
        self._unanswered: str | None = None
        """What `why` says of the cause if Redis did not answer: a further question would wait for its time-out, too."""

    def recorded(self, with_router: bool = True) -> RecordedTask:
        """Return the recorded task. Raises UsageError if there is none, or if its router cannot be imported here."""
        task = self._orchestrator.stored_task(self.task_id)
        summary, stale = current_summary(task)
        if stale:
            self._unanswered = "" if summary.status.waiting else "the cause is not known while Redis does not answer"
            click.echo(stale, err=True)
        found = task.recorded(summary, self.router(task.team()) if with_router else route)
        self._newest = found.steps[-1] if found.steps else None
        return found

    def open_changes(self) -> list[ToolDifference]:
        """Return how the tools have changed that a person must approve before the task continues."""
        return self._orchestrator.stored_task(self.task_id).tool_changes(self._newest)

    def left_out_tools(self) -> list[str]:
        """Return the tools that MCP servers list and agents cannot call, each with the reason."""
        return self._orchestrator.stored_task(self.task_id).left_out_tools()

    def missing_worker(self) -> str:
        """Return why the open task does not go on, also if Redis does not answer, or "" if no cause is known."""
        if self._unanswered is not None:
            return self._unanswered
        try:
            return self._orchestrator.stored_task(self.task_id).missing_worker()
        except TransientError as error:
            return str(error)

    def team(self, name: str) -> Team:
        """Return the team of this file, or of this name in ROBOCO_TEAMS_DIR."""
        return self._orchestrator.team(name)

    def router(self, team: Team) -> Router:
        """Return the team's router. As on a worker, a custom one may be in a module of the current folder."""
        if isinstance(team.collaboration_model, Custom) and str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        return self._orchestrator.router(team)


@contextmanager
def task_replay(task_id: str) -> Iterator[TaskReplay]:
    """Yield the replay of this task, and close its connections afterwards."""
    with closing(Orchestrator(load_settings())) as orchestrator:
        yield TaskReplay(orchestrator, task_id)
