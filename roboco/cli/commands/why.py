"""roboco why: who acted in a task, and why."""

import json
import sys

import click

from roboco.cli.commands.past import ledger_of
from roboco.cli.terminal import options
from roboco.cli.terminal.format import colour
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.tool_change import show_change
from roboco.domain.replay.explain import Scene, how_it_stands, tell
from roboco.domain.status import TaskStatus

_WIDE = 240
"""How many characters of a line are shown."""


@click.command()
@click.argument("task_id")
@click.argument("step", required=False)
@options.as_json
def why(task_id: str, step: str | None, as_json: bool) -> None:
    """Explain who acted in a task and why.

    STEP, a position or a step's id, tells of that step alone. The story says what happened before, which rule of which
    router named who acts, what else was possible, and at the end why the task ended or what it waits for, such as a
    worker that does not run. If a person must approve a changed tool, its old and new parts are shown.
    """
    with ledger_of(task_id) as ledger:
        past = ledger.past(with_router=False)
        changes = ledger.open_changes()
        missing = "" if past.status.ended else ledger.missing_worker()
    scenes, end = tell(past, step), f"it waits ({past.status}): {missing}" if missing else how_it_stands(past)
    if as_json:
        told = {"task_id": task_id, "team": past.team.name, "status": past.status, "reason": past.reason}
        record = told | {"steps": [scene.record() for scene in scenes], "end": end}
        record["missing_worker"] = missing
        record["changes"] = [change.model_dump(mode="json") for change in changes]
        click.echo(json.dumps(record, indent=2))
        return
    screen = Screen(sys.stdout)
    screen.line(("task ", "dim"), task_id, (f" · team {past.team.name}", "dim"))
    for scene in scenes:
        _show(screen, scene)
    for change in changes:
        show_change(screen, change)
    _end(screen, past.status, end)


def _show(screen: Screen, scene: Scene) -> None:
    screen.blank()
    screen.line(("── ", "cyan"), (f"step {scene.seq} · {scene.who}", "bold cyan"))
    for line in scene.before:
        _line(screen, "before", line, "dim")
    _line(screen, "why", scene.why, "bold")
    if scene.router:
        _line(screen, "rule", f"{scene.rule}, of the {scene.router} router", "")
    if any(candidate.name != scene.rule for candidate in scene.candidates):
        for candidate in scene.candidates:
            told = f"{candidate.name} · {candidate.why}" if candidate.why else candidate.name
            _line(screen, "possible", told, "green" if candidate.taken else "dim")
    for line in scene.did:
        _line(screen, "then", line, "")


def _line(screen: Screen, label: str, text: str, style: str) -> None:
    screen.line((f"   {label:<9}", "dim"), (one_line(text, _WIDE), style))


def _end(screen: Screen, status: TaskStatus, end: str) -> None:
    screen.blank()
    screen.line(("── ", colour(status)), (one_line(end, 2 * _WIDE), f"bold {colour(status)}"))
