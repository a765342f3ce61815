"""roboco switch: switch a queue, tenant, team, agent, model or tool off, or on again."""

from datetime import UTC, datetime

import click

from roboco.cli.terminal import options
from roboco.cli.terminal.caller import caller_settings
from roboco.cli.terminal.format import age
from roboco.cli.terminal.json_output import print_result
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.table import print_entries
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
    print_result(as_json, found, f"{found.cause}; on again: roboco switch on {found.target}")


@switch.command("on")
@click.argument("target", metavar="TARGET")
@options.as_json
def switch_on(target: str, as_json: bool) -> None:
    """Switch TARGET on again: its tasks continue within half a minute."""
    with Orchestrator(caller_settings()) as orchestrator:
        before = orchestrator.operator.switch_on(target)
    text = f"{one_line(target, 160)} was not switched off"
    if before is not None:
        text = f"{before.target} is switched on; it was off: {before.reason}"
    print_result(as_json, {"target": target, "was_off": before is not None}, text)


@switch.command("list")
@options.as_json
def list_switches(as_json: bool) -> None:
    """List everything that is switched off, with the reasons."""
    with Orchestrator(caller_settings()) as orchestrator:
        found = orchestrator.operator.switches()
    headings = ("off", "reason", "running work", "by", "since")
    print_entries(as_json, found, headings, _cells, "nothing is switched off")


def _cells(one: Switch) -> tuple[str, ...]:
    fate, since = "interrupted" if one.interrupt else "ends by itself", datetime.now(UTC) - one.since
    return one.target, one.reason, fate, one.by or "", age(since.total_seconds())
