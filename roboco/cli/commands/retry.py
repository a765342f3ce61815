"""roboco retry: continue a failed task under the same id, after the cause of its failure was fixed."""

from typing import Any

import click

from roboco.cli.commands.limits import limit_options, scoped_limits
from roboco.cli.commands.open_task import open_task
from roboco.cli.terminal import options
from roboco.cli.terminal.json_output import print_json


@click.command()
@click.argument("task_id")
@click.option("--reason", default="", metavar="TEXT", help="Why; the history keeps it.")
@click.option("--agent", help="Set limits of this agent instead of the task's.")
@click.option("--tool", help="Set limits of this tool: --max-calls, --max-seconds, --max-cost.")
@limit_options
@options.as_json
def retry(task_id: str, reason: str, agent: str | None, tool: str | None, as_json: bool, **limits: Any) -> None:
    """Continue a failed task from its last good step.

    Fix the cause of the failure first: `roboco why TASK_ID` shows it. A task that has ended at a limit needs a higher
    one, such as --max-steps. Webhooks, callbacks and the canvas get the new end.
    """
    given = {name: value for name, value in limits.items() if value is not None}
    with open_task(task_id) as task:
        receipt = task.retry(reason, **(scoped_limits(agent, tool, given) if given else {}))
    if as_json:
        print_json(receipt)
    else:
        click.echo(f"{task_id} continues; follow it with: roboco watch {task_id}")
