"""roboco export-test: a recorded task as a test of its team."""

import os
from contextlib import closing
from pathlib import Path

import click

from roboco.adapters.team.file import load_team
from roboco.cli.terminal import options
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.sanitize import escape_invisible
from roboco.client.orchestrator import Orchestrator
from roboco.domain.recorded.recorded_task import RecordedTask
from roboco.errors import UsageError
from roboco.lab.replay.recording import recording_of
from roboco.lab.replay.rehearsal import Rehearsal, rehearse
from roboco.lab.replay.rehearsal_source import render_test
from roboco.lab.replay.stored_record import router_of, stored_record
from roboco.settings import load_settings


@click.command("export-test")
@click.argument("task_id")
@click.option("--team", metavar="FILE", type=click.Path(path_type=Path), help="The team file that the test reads.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Where to write the test.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@options.as_json
def export_test(task_id: str, team: Path | None, output: Path | None, force: bool, as_json: bool) -> None:
    """Print a test file that replays a task.

    The test replays the task's recorded answers and results and needs no server. It runs under unittest and pytest.
    It fails if the team would have other agents act, call other tools, or end otherwise. The test contains the team;
    with --team it reads that file whenever it runs, and so notices later changes.

    FILE is relative to the folder of the test, or, without -o, to the folder in which the test runs.
    """
    if output is not None and output.exists() and not force:
        raise UsageError(f"file {str(output)!r} exists already; choose another one, or overwrite it with --force")
    with closing(Orchestrator(load_settings())) as orchestrator:
        text, failure = _render(orchestrator, task_id, team, output)
    if output is not None:
        _write(output, text, force)
    if as_json:
        file = None if output is None else str(output)
        print_json({"task_id": task_id, "file": file, "source": text, "passes": not failure, "failure": failure})
        return
    if output is None:
        click.echo(text.encode(), nl=False)
    else:
        click.echo(f"written to {output}; run it with: pytest {output} (or python -m unittest {output})", err=True)
    if failure:
        click.echo(f"the test fails now: {failure}", err=True)


def _render(orchestrator: Orchestrator, task_id: str, team: Path | None, output: Path | None) -> tuple[str, str]:
    """Return the source of the test, and why it fails now, or "" if it passes."""
    past = stored_record(orchestrator, task_id)
    recording = recording_of(past)
    expected = rehearse(past.team, recording, past.router)
    _check_reproducible(past, expected)
    chosen = past.team if team is None else load_team(team)
    now = expected if team is None else rehearse(chosen, recording, router_of(orchestrator, chosen))
    text = render_test(task_id, chosen, recording, expected, _team_path(team, output))
    if (now.agents, now.tools, now.status) == (expected.agents, expected.tools, expected.status):
        return text, ""
    agents = ", ".join(now.agents) or "no agent"
    return text, f"with {team} {agents} would act, and then it would be {now.status}: {escape_invisible(now.reason)}"


def _check_reproducible(past: RecordedTask, expected: Rehearsal) -> None:
    """Raise UsageError if the rehearsal differs from the record, for example because a router has changed."""
    recorded = [step.agent_name for step in past.steps]
    rehearsed = [step.agent_name for step in expected.steps]
    if rehearsed != recorded:
        place = next((seq for seq, pair in enumerate(zip(recorded, rehearsed, strict=False)) if pair[0] != pair[1]), -1)
        at = place if place >= 0 else min(len(recorded), len(rehearsed))
        raise UsageError(
            f"the task cannot be rehearsed: at step {at} its team chooses otherwise than was recorded "
            f"({expected.reason}); see roboco replay"
        )


def _team_path(team: Path | None, output: Path | None) -> str | None:
    """Return the expression by which the test finds the team file, or None if the test contains the team."""
    if team is None:
        return None
    if output is None:
        return f"Path({str(team)!r})"
    relative = os.path.relpath(team.absolute(), output.absolute().parent)
    return f"Path(__file__).parent / {relative!r}"


def _write(output: Path, text: str, force: bool) -> None:
    try:
        with output.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(f"file {str(output)!r} exists already; overwrite it with --force") from error
    except OSError as error:
        raise UsageError(f"file {str(output)!r} cannot be written: {error.strerror}") from error
