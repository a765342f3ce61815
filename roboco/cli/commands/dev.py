"""roboco dev: all servers and workers of Roboco on this machine, and its HTTP gateway, until Ctrl-C."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from roboco.cli.terminal.key_echo import key_echo
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
    screen.line(f"starting Redis, S3, workers, Flower and the gateway in {folder}")
    from roboco.cli.stack.dev_stack import DevStack  # imports for seconds on a busy machine

    stack = DevStack(folder, port_base, screen.line)
    with key_echo(False):
        try:
            stack.start()
            _print(screen, stack.addresses(), stack.export_lines(), os.path.relpath(stack.folder))
            stack.supervisor.supervise()
        except Interrupted:
            screen.line("ending; workers finish their work (Ctrl-C again kills them)")
        finally:
            stack.supervisor.stop()
    screen.line("everything has ended")


def _print(screen: Screen, addresses: Mapping[str, str], variables: str, folder: str) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, address in addresses.items():
        table.add_row(name, Text(address))
    screen.blank()
    screen.table(table)
    screen.blank()
    screen.line(("in other terminals:", "bold"), f" source {folder}/env", (", which is:", "dim"))
    for line in variables.splitlines():
        screen.line((line, "dim"))
    screen.blank()
