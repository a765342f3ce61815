"""The command `roboco`: its subcommands, and how errors become messages and exit codes."""

import sys
from io import TextIOWrapper
from typing import Any, NoReturn

import click
from redis.exceptions import NoPermissionError

from roboco.cli.commands.answers import answer, approve, deny, resolve
from roboco.cli.commands.context import context
from roboco.cli.commands.control import interrupt, pause, resume, step, stop
from roboco.cli.commands.dead_letters import dead, dismiss, requeue
from roboco.cli.commands.demo import demo
from roboco.cli.commands.dev import dev
from roboco.cli.commands.export_test import to_test
from roboco.cli.commands.fork import fork
from roboco.cli.commands.health import health
from roboco.cli.commands.mcp import mcp
from roboco.cli.commands.models import models
from roboco.cli.commands.raise_limits import raise_limits
from roboco.cli.commands.replay import replay_task
from roboco.cli.commands.run import run
from roboco.cli.commands.schema import schema
from roboco.cli.commands.session import delta, session
from roboco.cli.commands.show import show
from roboco.cli.commands.submit import send, submit
from roboco.cli.commands.tasks import tasks
from roboco.cli.commands.validate import validate
from roboco.cli.commands.verify import verify
from roboco.cli.commands.watch import watch
from roboco.cli.commands.why import why
from roboco.cli.doctor.command import doctor
from roboco.cli.terminal.exit import interrupted, report, report_denied, report_usage
from roboco.cli.terminal.signals import interruptible
from roboco.cli.top.command import top
from roboco.errors import RobocoError


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="roboco", prog_name="roboco")
@click.pass_context
def commands(context: click.Context) -> None:
    """Teams of LLM agents on the Celery workers you already operate."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for _command in (
    run,
    demo,
    dev,
    submit,
    watch,
    send,
    interrupt,
    stop,
    pause,
    resume,
    step,
    answer,
    approve,
    deny,
    resolve,
    fork,
    tasks,
    top,
    show,
    session,
    delta,
    context,
    why,
    replay_task,
    to_test,
    raise_limits,
    models,
    mcp,
    dead,
    requeue,
    dismiss,
    validate,
    schema,
    verify,
    doctor,
    health,
):
    commands.add_command(_command)


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # an agent may say what the terminal cannot show
    interruptible()
    sys.exit(_code())


def _code() -> int:
    try:
        code: Any = commands.main(prog_name="roboco", standalone_mode=False)
    except click.ClickException as error:
        return report_usage(error)
    except RobocoError as error:
        return report(error)
    except NoPermissionError as error:
        return report_denied(error)
    except click.Abort as error:
        return interrupted(error)
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    main()
