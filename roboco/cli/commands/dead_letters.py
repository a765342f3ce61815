"""roboco dead-letters: list, show, requeue and dismiss dead letters."""

import sys
from datetime import UTC, datetime

import click
from pydantic_core import to_jsonable_python

from roboco.cli.terminal import options
from roboco.cli.terminal.caller import caller_settings
from roboco.cli.terminal.format import age
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.table import print_entries
from roboco.client.orchestrator import Orchestrator
from roboco.domain.dead_letter import DeadLetter

_letters_argument = click.argument("letter_ids", metavar="LETTERS", nargs=-1)


@click.group("dead-letters", invoke_without_command=True)
@options.as_json
@click.pass_context
def dead_letters(context: click.Context, as_json: bool) -> None:
    """List, requeue or dismiss dead letters.

    Dead letters are messages that no worker could read, refused submissions, and turns and tool calls that were lost
    too often. Without a subcommand they are listed.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_letters, as_json=as_json)
    elif as_json:
        raise click.UsageError(f"write --json after the subcommand: {context.invoked_subcommand} --json")


@dead_letters.command("list")
@options.as_json
def list_letters(as_json: bool) -> None:
    """List dead letters with their reasons, oldest first."""
    with Orchestrator(caller_settings()) as orchestrator:
        letters = orchestrator.operator.dead_letters()
    headings = ("<letter", "message", "of", "reason", ">attempts", ">age")
    print_entries(as_json, letters, headings, _cells, "no dead letters")


@dead_letters.command("show")
@click.argument("letter_id", metavar="LETTER")
@options.as_json
def show_letter(letter_id: str, as_json: bool) -> None:
    """Show a dead letter: its reason, its headers and its body."""
    with Orchestrator(caller_settings()) as orchestrator:
        letter = orchestrator.operator.dead_letter(letter_id)
    if as_json:
        print_json(letter)
        return
    screen = Screen(sys.stdout)
    for name, value in to_jsonable_python(letter).items():
        if isinstance(value, dict):
            screen.line((name, "dim"))
            for key, one in value.items():
                screen.line((f"  {key:<18} ", "dim"), str(one))
        else:
            screen.line((f"{name:<20} ", "dim"), "" if value is None else str(value))


@dead_letters.command("requeue")
@_letters_argument
@options.as_json
def requeue_letters(letter_ids: tuple[str, ...], as_json: bool) -> None:
    """Send dead letters again and remove them from the list.

    Work of a task that has ended cannot be sent again.
    """
    if not letter_ids:
        raise click.UsageError("name the letters; roboco dead-letters lists them")
    sent: list[DeadLetter] = []
    with Orchestrator(caller_settings()) as orchestrator:
        for letter_id in letter_ids:
            sent.append(letter := orchestrator.operator.requeue_dead_letter(letter_id))
            if not as_json:
                click.echo(f"{letter_id} is sent again ({one_line(letter.name, 64)})")
    if as_json:
        print_json([{"letter_id": letter.letter_id, "name": letter.name, "requeued": True} for letter in sent])


@dead_letters.command("dismiss")
@_letters_argument
@click.option("--all", "every", is_flag=True, help="Dismiss all letters that are on the list now.")
@options.as_json
def dismiss_letters(letter_ids: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Delete dead letters for good, without sending them again.

    Also those of tasks that have ended. A letter that is not on the list is no error.
    """
    if bool(letter_ids) == every:
        raise click.UsageError("name the letters, or use --all; roboco dead-letters lists them")
    with Orchestrator(caller_settings()) as orchestrator:
        chosen = [letter.letter_id for letter in orchestrator.operator.dead_letters()] if every else letter_ids
        dismissed = {letter_id: orchestrator.operator.dismiss_dead_letter(letter_id) for letter_id in chosen}
    if as_json:
        print_json(
            [{"letter_id": letter_id, "dismissed": letter is not None} for letter_id, letter in dismissed.items()]
        )
        return
    for letter_id, letter in dismissed.items():
        click.echo(_dismissal_message(letter_id, letter))
    if not dismissed:
        click.echo("no dead letters")


def _dismissal_message(letter_id: str, letter: DeadLetter | None) -> str:
    if letter is None:
        return f"{one_line(letter_id, 80)} is not on the list: it was dismissed or sent again, or never existed"
    return f"{letter_id} is dismissed ({one_line(letter.name, 64)}: {one_line(letter.reason, 160)})"


def _cells(letter: DeadLetter) -> tuple[str, ...]:
    of = ", ".join(filter(None, (letter.task_id, letter.detail))) or str(letter.headers.get("id", ""))
    name, since = one_line(letter.name, 64), (datetime.now(UTC) - letter.time).total_seconds()
    return letter.letter_id, name, one_line(of, 160), letter.reason, str(letter.attempts or ""), age(since)
