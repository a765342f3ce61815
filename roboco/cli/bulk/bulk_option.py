"""bulk_option: make the control of one task a control of all tasks that meet conditions, too.

TASK_ID ─► the command as it is
conditions, or --all ─► count ─► confirmation ─► page, page, ... ─► totals, exit code
                                 (no: nothing)   (Ctrl-C, silent server: how to resume)
"""

import functools
from collections.abc import Callable
from typing import Any, Final

import click

from roboco.cli.bulk.run_bulk import BulkRequest, run_bulk
from roboco.cli.bulk.task_conditions import NAMES, filter_options, task_conditions
from roboco.client.operator.bulk_control import ControlName

_OWN_NAMES: Final = ("every", "yes", "rate", "bulk_id", "cursor")
_OPTIONS: Final = (
    click.option("--all", "every", is_flag=True, help="Control all tasks that the control may concern."),
    click.option("--yes", is_flag=True, help="Do not ask for confirmation."),
    click.option(
        "--rate",
        metavar="NUMBER",
        type=click.FloatRange(min=0, max=1000, min_open=True),
        default=50,
        show_default=True,
        help="Tasks a second, at most.",
    ),
    click.option("--bulk-id", metavar="ID", help="Resume the run with this id: no task is controlled twice."),
    click.option("--cursor", metavar="CURSOR", default="", help="Resume a run at the cursor that it printed."),
)
Content = Callable[[dict[str, Any]], dict[str, Any]]


def _no_content(_: dict[str, Any]) -> dict[str, Any]:
    return {}


def bulk_option(name: ControlName, content: Content = _no_content) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator of a command of one task. `content` returns options of the bulk control from its parameters.

    Place it above the other options. It adds the argument TASK_ID, which may be left out.
    """

    def decorate(command: Callable[..., Any]) -> Any:
        @functools.wraps(command)
        def control(**given: Any) -> Any:
            conditions = {key: given.pop(key) for key in NAMES}
            own = {key: given.pop(key) for key in _OWN_NAMES}
            is_bulk = own["every"] or any(value not in (None, ()) for value in conditions.values())
            if (given["task_id"] is None) != is_bulk:
                raise click.UsageError("name one task, or conditions such as --tenant; --all controls all tasks")
            if not is_bulk:
                return command(**given)
            if (message := given.get("message")) is not None:
                raise click.UsageError(f"a message is for one task (found {message!r})")
            options = {**filter_options(conditions), **content(given), "all_tasks": own["every"], "rate": own["rate"]}
            request = BulkRequest(name, options, own["bulk_id"], own["cursor"], own["yes"], given["as_json"])
            return run_bulk(request)

        decorated = task_conditions(control)
        for option in reversed(_OPTIONS):
            decorated = option(decorated)
        return click.argument("task_id", required=False)(decorated)

    return decorate
