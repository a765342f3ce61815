"""How a command that fails says so: one message on stderr, and an exit code."""

import sys

import click

from roboco.cli.printable import escaped
from roboco.cli.signals import Interrupted
from roboco.errors import RobocoError, UsageError

USAGE = 2
FAILED = 1


def report(error: RobocoError) -> int:
    """Print the error: the exit code."""
    print(f"error: {escaped(str(error))}", file=sys.stderr)
    return USAGE if isinstance(error, UsageError) else FAILED


def report_usage(error: click.ClickException) -> int:
    """Print what click found wrong with the command line: the exit code."""
    error.show()
    return error.exit_code


def interrupted(error: click.Abort) -> int:
    """The exit code of a command that a signal ended, which click tells as its own error."""
    return error.__cause__.exit_code if isinstance(error.__cause__, Interrupted) else FAILED
