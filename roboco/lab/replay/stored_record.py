"""The record of a stored task, and the routers by which it is decided again."""

import sys
from pathlib import Path

import click

from roboco.cli.terminal.current_summary import current_summary
from roboco.client.orchestrator import Orchestrator
from roboco.domain.decision.router import Router, route
from roboco.domain.recorded.recorded_task import RecordedTask
from roboco.domain.team.collaboration import Custom
from roboco.domain.team.team import Team


def stored_record(orchestrator: Orchestrator, task_id: str, *, own_router: bool = True) -> RecordedTask:
    """Return the recorded task. Raise UsageError if there is none, or if its own router cannot be imported here."""
    task = orchestrator.stored_task(task_id)
    summary, stale = current_summary(task)
    if stale:
        click.echo(stale, err=True)
    return task.recorded(summary, router_of(orchestrator, task.team()) if own_router else route)


def router_of(orchestrator: Orchestrator, team: Team) -> Router:
    """Return the team's router. As on a worker, a custom one may be in a module of the current folder."""
    if isinstance(team.collaboration_model, Custom) and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return orchestrator.router(team)
