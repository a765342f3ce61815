"""The command `roboco`: its subcommands, and how errors become messages and exit codes."""

import sys
from io import TextIOWrapper
from typing import Any, NoReturn

import click
from redis.exceptions import NoPermissionError

from roboco.cli.answers import answer, approve, deny, resolve
from roboco.cli.context import context
from roboco.cli.control import interrupt, pause, resume, step, stop
from roboco.cli.dead import dead, dismiss, requeue
from roboco.cli.demo import demo
from roboco.cli.dev import dev
from roboco.cli.doctor import doctor
from roboco.cli.failure import interrupted, report, report_denied, report_usage
from roboco.cli.fork import fork
from roboco.cli.health import health
from roboco.cli.mcp import mcp
from roboco.cli.models import models
from roboco.cli.raise_limits import raise_limits
from roboco.cli.replay import replay_task
from roboco.cli.run import run
from roboco.cli.schema import schema
from roboco.cli.session import delta, session
from roboco.cli.show import show
from roboco.cli.signals import interruptible
from roboco.cli.submit import send, submit
from roboco.cli.tasks import tasks
from roboco.cli.to_test import to_test
from roboco.cli.top import top
from roboco.cli.validate import validate
from roboco.cli.verify import verify
from roboco.cli.watch import watch
from roboco.cli.why import why
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
