"""roboco fork: a new task with the first steps of another one, or of each task that meets conditions."""

from typing import Any

import click

from roboco.cli.bulk.bulk_option import bulk_option
from roboco.cli.terminal import options
from roboco.cli.terminal.caller import caller_settings
from roboco.cli.terminal.json_output import print_result
from roboco.client.orchestrator import Orchestrator


def _given_fork(given: dict[str, Any]) -> dict[str, Any]:
    for name, option in (("seq", "--seq"), ("new_id", "--id")):
        if given[name] is not None:
            raise click.UsageError(f"{option}: name one task; the forks of many have all steps, and new ids")
    return {name: given[name] for name in ("message", "agent", "new_team", "model") if given[name] is not None}


@click.command()
@bulk_option("fork", _given_fork, "--of-team")
@click.option("--seq", type=click.IntRange(min=0), help="The last step to copy; by default all steps.")
@click.option("--message", metavar="TEXT", help="The user's message after them.")
@options.model
@click.option("--agent", metavar="NAME", help="The agent that answers the message.")
@click.option(
    "--team", "new_team", metavar="TEAM", help="Another team: the path of its file, or its name in ROBOCO_TEAMS_DIR."
)
@click.option("--id", "new_id", metavar="NEW_ID", help="The new task's id; the same fork again is the same task.")
@options.as_json
def fork(task_id: str, as_json: bool, new_team: str | None, new_id: str | None, **given: Any) -> None:
    """Start a new task from the first steps of a task.

    The new task continues with the message, team or model that is given; the other task stays as it is.

    Or fork all tasks that meet conditions, such as --of-team research --status failed: the command prints each task
    and its new one. Runs of what-if are left out.
    """
    with Orchestrator(caller_settings()) as orchestrator:
        task = orchestrator.task(task_id).fork(team=new_team, task_id=new_id, **given)
    print_result(as_json, {"task_id": task.task_id}, task.task_id)
