"""roboco to-test: a recorded task as a test of its team."""

import os
from pathlib import Path

import click

from roboco.adapters.team.file import load_team
from roboco.cli.commands.past import ledger_of
from roboco.cli.commands.rehearsal_source import source
from roboco.cli.terminal.sanitize import escaped
from roboco.domain.replay.recording import recording_of
from roboco.domain.replay.rehearsal import Rehearsal, rehearse
from roboco.domain.replay.replay import Past
from roboco.errors import UsageError


@click.command("to-test")
@click.argument("task_id")
@click.option("--team", metavar="FILE", type=click.Path(path_type=Path), help="The team file that the test reads.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Where to write the test.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def to_test(task_id: str, team: Path | None, output: Path | None, force: bool) -> None:
    """Print a pytest file that replays a task.

    It replays the task's recorded answers and results, needs no server, and fails once the team would have other agents
    act, other tools called or another end. The team stands in the test; with --team it is read from that file whenever
    the test runs, so that later changes are noticed.
    The file is named from where the test is written, or, without -o, from where pytest runs.
    """
    if output is not None and output.exists() and not force:
        raise UsageError(f"file {str(output)!r} is there already; choose another one, or write over it with --force")
    with ledger_of(task_id) as ledger:
        past = ledger.past()
        recording = recording_of(past)
        expected = rehearse(past.team, recording, past.router)
        _check(past, expected)
        chosen = past.team if team is None else load_team(team)
        now = expected if team is None else rehearse(chosen, recording, ledger.router(chosen))
    text = source(task_id, chosen, recording, expected, _place(team, output))
    if output is None:
        click.echo(text.encode(), nl=False)
    else:
        _write(output, text, force)
        click.echo(f"written to {output}; run it with: pytest {output}", err=True)
    if (now.agents, now.tools, now.status) != (expected.agents, expected.tools, expected.status):
        click.echo(
            f"the test fails now: with {team} {', '.join(now.agents) or 'nobody'} would act, and then it would be "
            f"{now.status}: {escaped(now.reason)}",
            err=True,
        )


def _check(past: Past, expected: Rehearsal) -> None:
    """UsageError if the rehearsal does not come to what was recorded, as where a router is no longer the same."""
    recorded = [step.agent_name for step in past.steps]
    rehearsed = [step.agent_name for step in expected.steps]
    if rehearsed != recorded:
        place = next((seq for seq, pair in enumerate(zip(recorded, rehearsed, strict=False)) if pair[0] != pair[1]), -1)
        at = place if place >= 0 else min(len(recorded), len(rehearsed))
        raise UsageError(
            f"the task cannot be rehearsed: at step {at} its team chooses otherwise than was recorded "
            f"({expected.reason}); see roboco replay"
        )


def _place(team: Path | None, output: Path | None) -> str | None:
    """The expression by which the test finds the team's file."""
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
        raise UsageError(f"file {str(output)!r} is there already; write over it with --force") from error
    except OSError as error:
        raise UsageError(f"file {str(output)!r} cannot be written: {error.strerror}") from error
