"""Past: a task as its workspace holds it, for commands that look back on it."""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import click

from roboco.cli.commands.overview import Overview
from roboco.client.orchestrator import Orchestrator
from roboco.client.team_lookup import resolve_team
from roboco.client.wiring import workspace_address
from roboco.domain.decision.router import Router, route
from roboco.domain.history.lineage import parent_of
from roboco.domain.replay.replay import Past
from roboco.domain.team.collaboration import Custom
from roboco.domain.team.team import Team
from roboco.domain.team.tool_difference import ToolDifference
from roboco.engine.intake.answer import open_changes
from roboco.engine.intake.unattended import unattended
from roboco.errors import CorruptHistory, TransientError
from roboco.settings import read_settings


class Ledger:
    """The past of a task, and what is needed to judge it by another team."""

    def __init__(self, orchestrator: Orchestrator, task_id: str) -> None:
        self._orchestrator = orchestrator
        self.task_id = task_id

    def past(self, with_router: bool = True) -> Past:
        """What is recorded of the task; UsageError if there is none, or if its own router cannot be had here."""
        overview = Overview(self._orchestrator)
        summary = overview.of(self.task_id)
        if overview.stale:
            click.echo(overview.stale, err=True)
        engine = self._orchestrator.engine
        steps = tuple(engine.histories.read(self.task_id))
        if not steps:
            raise CorruptHistory(f"task {self.task_id!r} has no steps in its workspace")
        team, fork = engine.teams.get(self.task_id), engine.teams.fork(self.task_id)
        return Past(
            team=team,
            steps=steps,
            status=summary.status,
            reason=summary.reason,
            began=steps[0].created_at if fork is None else fork.created_at,
            first=1 if fork is None else fork.seq + 1,
            sub_task=parent_of(self.task_id, steps[0]) is not None,
            router=self.router(team) if with_router else route,
        )

    def open_changes(self) -> list[ToolDifference]:
        """How the tools have changed that a person must approve for the task to go on."""
        return open_changes(self._orchestrator.engine, self.task_id)

    def missing_worker(self) -> str:
        """Return why no worker attends to the open task, or "" if one does or Redis does not answer."""
        try:
            address = workspace_address(self._orchestrator.settings)
            return unattended(self._orchestrator.engine, address, self.task_id)
        except TransientError:
            return ""

    def team(self, named: str) -> Team:
        """The team of this file, or of this name in ROBOCO_TEAMS_DIR."""
        return resolve_team(self._orchestrator.settings, named)

    def router(self, team: Team) -> Router:
        """The team's router; one of the user's own only from a module of ROBOCO_TOOL_MODULES, as for workers."""
        model = team.collaboration_model
        if not isinstance(model, Custom):
            return route
        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))  # as it is for a worker
        return self._orchestrator.engine.toolbox.router(model.router)


@contextmanager
def ledger_of(task_id: str) -> Iterator[Ledger]:
    """The ledger of this task, with connections that are closed afterwards."""
    with closing(Orchestrator(read_settings())) as orchestrator:
        yield Ledger(orchestrator, task_id)
