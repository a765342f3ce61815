"""roboco run: submit a task and show it live; it starts the servers that are missing."""

from pathlib import Path
from typing import Any

import click

from roboco.cli.interactive.run_team import RunOptions, run_team
from roboco.cli.terminal import options
from roboco.team_files.file import load_team


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("prompt")
@options.context
@options.agent
@options.model
@options.title
@options.task_id
@options.as_json
@options.web
@options.subtasks
@click.option("--worker", is_flag=True, help="Start a worker even if ROBOCO_REDIS_URL is set.")
def run(file: Path, prompt: str, as_json: bool, web: bool, subtasks: bool, worker: bool, **task: Any) -> int:
    """Run a team here and show it live.

    Without ROBOCO_REDIS_URL the command starts a Redis and a worker, and without OPENAI_API_KEY and OPENAI_BASE_URL a
    small local model.

    On a terminal, Ctrl-C asks for a message and interrupts the team with it; twice stops the task. Without a terminal,
    Ctrl-C stops the task.
    The exit code is 0 if the task has completed or waits, and 1 if it has ended otherwise.
    """
    return run_team(load_team(file), RunOptions(prompt, task, as_json, worker, web=web, subtasks=subtasks))
