"""roboco switch: switch a queue, tenant, team, agent, model or tool off, or on again."""

import sys
from datetime import UTC, datetime

import click
from rich.table import Table
from rich.text import Text

from roboco.cli.terminal import options
from roboco.cli.terminal.caller import caller_settings
from roboco.cli.terminal.format import age
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.table import plain_table
from roboco.client.orchestrator import Orchestrator
from roboco.domain.switch import Switch


@click.group()
def switch() -> None:
    """Switch a queue, tenant, team, agent, model or tool off or on.

    While it is switched off, its turns and tool calls wait with the reason, and no attempt is counted. TARGET is
    KIND:NAME: queue:agents, queue:tools, tenant:NAME, team:NAME, agent:NAME, agent:TEAM/NAME, model:NAME or tool:NAME.
    """


@switch.command("off")
@click.argument("target", metavar="TARGET")
@click.option("--reason", metavar="TEXT", required=True, help="Why, for everyone with a task that waits.")
@click.option(
    "--interrupt",
    is_flag=True,
    help="Interrupt running turns and calls too, except calls of irreversible tools.",
)
@options.as_json
def switch_off(target: str, reason: str, interrupt: bool, as_json: bool) -> None:
    """Switch TARGET off: within a second none of its turns or calls begins.

    Running ones end by themselves, or are interrupted with --interrupt. It survives a loss of Redis.
    """
    with Orchestrator(caller_settings()) as orchestrator:
        found = orchestrator.operator.switch_off(target, reason, interrupt=interrupt)
    if as_json:
        print_json(found)
    else:
        click.echo(f"{found.cause}; on again: roboco switch on {found.target}")


@switch.command("on")
@click.argument("target", metavar="TARGET")
@options.as_json
def switch_on(target: str, as_json: bool) -> None:
    """Switch TARGET on again: its tasks continue within half a minute."""
    with Orchestrator(caller_settings()) as orchestrator:
        before = orchestrator.operator.switch_on(target)
    if as_json:
        print_json({"target": target, "was_off": before is not None})
    elif before is None:
        click.echo(f"{one_line(target, 160)} was not switched off")
    else:
        click.echo(f"{before.target} is switched on; it was off: {before.reason}")


@switch.command("list")
@options.as_json
def list_switches(as_json: bool) -> None:
    """List everything that is switched off, with the reasons."""
    with Orchestrator(caller_settings()) as orchestrator:
        found = orchestrator.operator.switches()
    if as_json:
        print_json(found)
    elif found:
        Screen(sys.stdout).table(_table(found, datetime.now(UTC)))
    else:
        click.echo("nothing is switched off")


def _table(found: list[Switch], now: datetime) -> Table:
    table = plain_table("off", "reason", "running work", "by", "since")
    for one in found:
        table.add_row(
            Text(one_line(one.target, 200)),
            Text(one_line(one.reason, 300)),
            Text("interrupted" if one.interrupt else "ends by itself"),
            Text(one_line(one.by or "", 200)),
            Text(age((now - one.since).total_seconds())),
        )
    return table
