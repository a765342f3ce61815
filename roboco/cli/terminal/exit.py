"""How a command that fails says so: one message on stderr, and an exit code."""

import os
import sys
from urllib.parse import urlsplit

import click

from roboco.cli.terminal.sanitize import escaped
from roboco.cli.terminal.signals import Interrupted
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


def is_denied(error: Exception) -> bool:
    """Return True if Redis has refused a command because its user lacks a right. It does not import redis."""
    redis = sys.modules.get("redis.exceptions")
    return redis is not None and isinstance(error, redis.NoPermissionError)


def report_denied(error: Exception) -> int:
    """Print that the Redis user lacks a right: the exit code."""
    user = urlsplit(os.environ.get("ROBOCO_REDIS_URL", "")).username or "default"
    print(
        f"error: Redis user {escaped(user)!r} lacks a right that this command needs: {escaped(str(error))}; name "
        "another user in ROBOCO_REDIS_URL (and ROBOCO_BROKER_URL, if it is set): of deploy/redis-users.acl, "
        "roboco-client may manage dead letters and roboco-admin may run every command",
        file=sys.stderr,
    )
    return FAILED


def interrupted(error: click.Abort) -> int:
    """The exit code of a command that a signal ended, which click tells as its own error."""
    return error.__cause__.exit_code if isinstance(error.__cause__, Interrupted) else FAILED
