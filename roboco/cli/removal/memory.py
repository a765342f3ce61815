"""roboco memory: what agents remember for an owner, and its erasure."""

import click

from roboco.cli.bulk.bulk_option import confirm
from roboco.cli.terminal import options
from roboco.cli.terminal.caller import caller_settings
from roboco.cli.terminal.json_output import print_json, print_result
from roboco.cli.terminal.sanitize import one_line
from roboco.client.orchestrator import Orchestrator


@click.command()
@click.argument("owner", metavar="OWNER", default="tenant")
@click.option("--tenant", metavar="TENANT", help="The tenant of the memory.")
@click.option("--erase", is_flag=True, help="Erase the memory; OWNER may be 'all', for all owners of the tenant.")
@click.option("--entry", "entry_id", metavar="ID", default="", help="With --erase: the only entry to erase.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.as_json
def memory(owner: str, tenant: str | None, erase: bool, entry_id: str, yes: bool, as_json: bool) -> None:
    """Show what agents remember for an owner, or erase it.

    OWNER is 'tenant', or a field of the tasks' context with a value, such as context.user=alice.
    """
    of, _, value = owner.partition("=")
    with Orchestrator(caller_settings()) as orchestrator:
        operator = orchestrator.operator
        if erase:
            if not yes:
                confirm(f"Erase {entry_id or 'all'} in the memory of {owner} for good?")
            erased = operator.erase_memory("" if owner == "all" else of, value, entry=entry_id, tenant=tenant)
            print_result(as_json, {"entries": erased}, f"{erased} entries are erased")
            return
        found = operator.memory(of, value, tenant=tenant)
        if as_json:
            print_json(found)
        elif not found.entries:
            click.echo(f"no entries for {one_line(owner, 300)}")
        for one in () if as_json else found.entries:
            source = f"{one.created_at:%Y-%m-%d %H:%M} {one.agent} in {one.task_id}"
            click.echo(f"{one.id} {one_line(one.text, 2000)} ({one_line(source, 300)})")
