"""roboco dead, requeue, dismiss: the dead letters."""

import json
import sys
from contextlib import closing
from datetime import UTC, datetime

import click
from rich.table import Table
from rich.text import Text

from roboco.cli.terminal import options
from roboco.cli.terminal.format import age
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen
from roboco.client.orchestrator import Orchestrator
from roboco.domain.dead_letter import DeadLetter
from roboco.settings import read_settings


@click.command()
@options.as_json
def dead(as_json: bool) -> None:
    """List dead letters with their reasons.

    Dead letters are messages that no worker could read, refused submissions, and turns and tool calls that were lost
    too often. `roboco requeue` sends a letter again, and `roboco dismiss` drops it.
    """
    with closing(Orchestrator(read_settings())) as orchestrator:
        letters = orchestrator.dead_letters()
    if as_json:
        click.echo(json.dumps([letter.model_dump(mode="json") for letter in letters], indent=2))
    elif letters:
        Screen(sys.stdout).table(_table(letters, datetime.now(UTC)))
    else:
        click.echo("no dead letters")


@click.command()
@click.argument("letter_ids", metavar="LETTERS", nargs=-1, required=True)
def requeue(letter_ids: tuple[str, ...]) -> None:
    """Send dead letters again and remove them from the list.

    Work of a task that has ended cannot be sent again.
    """
    with closing(Orchestrator(read_settings())) as orchestrator:
        for letter_id in letter_ids:
            letter = orchestrator.requeue(letter_id)
            click.echo(f"{letter_id} is sent again ({one_line(letter.name, 64)})")


@click.command()
@click.argument("letter_ids", metavar="LETTERS", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Dismiss all letters that are on the list now.")
def dismiss(letter_ids: tuple[str, ...], every: bool) -> None:
    """Remove dead letters from the list without sending them again.

    Also those of tasks that have ended. A letter that is not on the list is no error.
    """
    if bool(letter_ids) == every:
        raise click.UsageError("name the letters, or use --all; roboco dead lists them")
    with closing(Orchestrator(read_settings())) as orchestrator:
        listed = [letter.letter_id for letter in orchestrator.dead_letters()] if every else letter_ids
        for letter_id in listed:
            click.echo(_dismissed(letter_id, orchestrator.dismiss(letter_id)))
    if not listed:
        click.echo("no dead letters")


def _dismissed(letter_id: str, letter: DeadLetter | None) -> str:
    if letter is None:
        return f"{one_line(letter_id, 80)} is not on the list: it was dismissed, sent again, or never there"
    return f"{letter_id} is dismissed ({one_line(letter.name, 64)}: {one_line(letter.reason, 160)})"


def _table(letters: list[DeadLetter], now: datetime) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("letter", no_wrap=True)
    for heading in ("message", "of", "reason"):
        table.add_column(heading, overflow="fold")
    for heading in ("attempts", "age"):
        table.add_column(heading, justify="right", no_wrap=True)
    for letter in letters:
        of = ", ".join(filter(None, (letter.task_id, letter.detail))) or str(letter.headers.get("id", ""))
        table.add_row(
            Text(letter.letter_id),
            Text(one_line(letter.name, 64)),
            Text(one_line(of, 160)),
            Text(one_line(letter.reason, 500)),
            Text(str(letter.attempts or "")),
            Text(age((now - letter.time).total_seconds())),
        )
    return table
