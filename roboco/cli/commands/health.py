"""roboco health: whether the worker of this machine or container accepts and does work."""

import subprocess
import sys

import click

from roboco.cli.stack.celery_process import environment
from roboco.cli.terminal import options
from roboco.cli.terminal.exit import SUCCESS, USAGE, print_error
from roboco.cli.terminal.json_output import print_json
from roboco.errors import UsageError
from roboco.settings import load_settings


@click.command()
@click.argument("pool", type=click.Choice(["coordinator", "agents", "tools", "app"]))
@options.as_json
def health(pool: str, as_json: bool) -> int:
    """Check the worker that shares ROBOCO_HEALTH_DIR with this command.

    The exit code is 0 if the worker is healthy, 1 if it is not, and 2 without ROBOCO_HEALTH_DIR.
    `python -m roboco.workers.healthcheck POOL` does the same in 50 ms instead of two seconds, for containers.
    """
    command = [sys.executable, "-P", "-m", "roboco.workers.healthcheck", pool]
    ended = subprocess.run(command, env=environment(load_settings(), {}), capture_output=True, text=True)
    message = f"{ended.stdout}{ended.stderr}".strip()
    if not as_json:
        click.echo(ended.stdout, nl=False)
        click.echo(ended.stderr, nl=False, err=True)
    elif ended.returncode == USAGE:
        print_error(UsageError.code, message, as_json)
    else:
        print_json({"pool": pool, "healthy": ended.returncode == SUCCESS, "message": message})
    return ended.returncode
