"""How a command reports that it failed: one message on standard error, and an exit code.

With `--json` the message is one JSON object on a line, with `code` and `message`; otherwise it is text for people.
"""

import json
import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from roboco.cli.terminal.sanitize import escape_invisible
from roboco.cli.terminal.signals import Interrupted
from roboco.errors import InvalidTeam, NotFound, RobocoError, UsageError

SUCCESS: Final = 0
FAILED: Final = 1
USAGE: Final = 2
SIGNALLED: Final = 128
"""To which the number of the signal is added."""
EXIT_CODES: Final = (
    (str(SUCCESS), "Success; for run and watch: the task completed, or waits (run)."),
    (
        str(FAILED),
        "Failure: a server did not answer, a check failed, or the task did not complete.",
    ),
    (str(USAGE), "Usage: the command line, a team file or the request is wrong, and nothing has changed."),
    (f"{SIGNALLED}+N", "Signal N ended the command; 130 after Ctrl-C."),
)
"""The exit codes of all commands, as the help shows them."""
ERROR_FORMAT: Final = (
    "With --json, an error is one JSON object on a line of standard error, with its `code` and `message`, such as "
    '{"code": "invalid", "message": "..."}; standard output holds the result alone.'
)


def wants_json(arguments: Sequence[str]) -> bool:
    """Return True if the command line asks for JSON, also if it has mistakes for which click cannot parse it."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options


def report(error: RobocoError, as_json: bool) -> int:
    """Print the error. Return the exit code."""
    more = {"mistakes": list(error.mistakes)} if isinstance(error, InvalidTeam) else {}
    print_error(error.code, f"{error}{_missing_environment(error)}", as_json, **more)
    return USAGE if isinstance(error, UsageError) else FAILED


def _missing_environment(error: RobocoError) -> str:
    """Return the variables without which a command looks in another place than the workers, and the remedy."""
    unset = [name for name in ("ROBOCO_REDIS_URL", "ROBOCO_WORKSPACE") if not os.environ.get(name)]
    if not unset or not isinstance(error, NotFound):
        return ""
    return f"; not set: {', '.join(unset)}; beside `roboco dev`: source .roboco/dev/env"


def report_usage(error: click.ClickException, as_json: bool) -> int:
    """Print the mistake that click found in the command line. Return the exit code."""
    if as_json:
        print_error(UsageError.code if error.exit_code == USAGE else "error", error.format_message(), as_json)
    else:
        error.show()
    return error.exit_code


def report_abort(error: click.Abort) -> int:
    """Return the exit code of a command that a signal has ended; click raises Abort for it."""
    return error.__cause__.exit_code if isinstance(error.__cause__, Interrupted) else FAILED


def print_error(code: str, message: str, as_json: bool, **more: object) -> None:
    """Print an error on standard error, as JSON or as text."""
    text = json.dumps({"code": code, "message": message, **more}) if as_json else f"error: {escape_invisible(message)}"
    print(text, file=sys.stderr)
