"""How a command that fails says so: one message on stderr, and an exit code."""

import os
import sys

import click

from roboco.cli.printable import printable
from roboco.errors import RobocoError, UsageError

USAGE = 2
FAILED = 1


def report(error: RobocoError) -> int:
    """Print the error: the exit code."""
    print(f"error: {printable(str(error))}", file=sys.stderr)
    return USAGE if isinstance(error, UsageError) else FAILED


def report_usage(error: click.ClickException) -> int:
    """Print what click found wrong with the command line: the exit code."""
    error.show()
    return error.exit_code


def unread() -> int:
    """Nobody reads the output any more: keep Python from saying so when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED
