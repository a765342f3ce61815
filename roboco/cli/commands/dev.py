"""roboco dev: all servers and workers of Roboco on this machine, and its HTTP gateway, until Ctrl-C."""

import os
import sys
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from roboco.cli.stack.dev_stack import POOLS, DevStack
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.signals import Interrupted


@click.command()
@click.option(
    "--port-base", type=click.IntRange(1024, 65000), help="First of 14 ports; by default those of the last run."
)
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False), default=Path(".roboco/dev"), show_default=True
)
def dev(port_base: int | None, folder: Path) -> None:
    """Run a whole stack: Redis, S3, workers, Flower and HTTP.

    The command prints their addresses, restarts each process that dies, and ends on Ctrl-C. The folder keeps the data.
    """
    screen = Screen(sys.stdout)
    stack = DevStack(folder, port_base, screen.line)
    try:
        stack.start()
        _print_addresses(screen, stack)
        stack.supervisor.supervise()
    except Interrupted:
        screen.line("ending; workers finish their work (Ctrl-C again kills them)")
    finally:
        stack.supervisor.stop()
    screen.line("everything has ended")


def _print_addresses(screen: Screen, stack: DevStack) -> None:
    exports = stack.exports
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("redis", Text(exports["ROBOCO_REDIS_URL"]))
    place = exports.get("ROBOCO_S3_ENDPOINT_URL", "")
    table.add_row("workspace", Text(f"{exports['ROBOCO_WORKSPACE']} {place and f'at {place}'}".rstrip()))
    table.add_row("flower", Text(f"{stack.flower} user roboco, password {stack.password}"))
    table.add_row("web view", Text(f"{stack.gateway}/ and HTTP gateway, for this machine alone, without a key"))
    table.add_row("workers", Text(", ".join(POOLS)))
    here = os.path.relpath(stack.folder)
    table.add_row("logs", Text(f"{here}/*.log"))
    screen.blank()
    screen.table(table)
    screen.blank()
    screen.line(("in other terminals:", "bold"), f" source {here}/env", (", which is:", "dim"))
    for line in stack.export_lines().splitlines():
        screen.line((line, "dim"))
    screen.blank()
