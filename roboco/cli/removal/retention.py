"""roboco retention: the rules of the retention, and the tasks that they remove now."""

from collections import Counter

import click

from roboco.cli.terminal import options
from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.sanitize import one_line
from roboco.client.orchestrator import Orchestrator
from roboco.settings import load_settings


@click.command()
@click.option("--dry-run", is_flag=True, help="List the tasks that the rules remove now.")
@options.as_json
def retention(dry_run: bool, as_json: bool) -> None:
    """List tasks that the retention removes.

    The command shows the rules of ROBOCO_RETENTION_RULES, and with --dry-run the tasks that they cover now.

    The command changes nothing: coordinators scan the workspace once a day. It reads the rules from its environment.
    """
    settings = load_settings()
    if not dry_run:
        _print_rules(settings.retention_rules, as_json)
        return
    counts, read, cursor = Counter[str](), 0, ""
    with Orchestrator(settings) as orchestrator:
        while True:
            page = orchestrator.operator.retention_page(cursor=cursor)
            read += page.tasks_read
            for one in page.tasks:
                counts[one.cause] += 1
                text = f"{one.task_id} {one_line(one.cause, 300)}"
                click.echo(one.model_dump_json() if as_json else text)
            if not (cursor := page.cursor):
                break
    click.echo(f"{counts.total()} of {read} tasks are due", err=True)
    for rule, count in counts.items():
        click.echo(f"{count} by rule {one_line(rule, 300)}", err=True)


def _print_rules(rules: tuple[str, ...], as_json: bool) -> None:
    if as_json:
        print_json({"rules": rules})
    elif rules:
        for number, rule in enumerate(rules, 1):
            click.echo(f"{number}. {rule}")
    else:
        click.echo("no rules: every task is kept (ROBOCO_RETENTION_RULES)")
