"""roboco run: submit a task and show it live, with everything started that is missing."""

from pathlib import Path
from typing import Any

import click

from roboco.adapters.team.file import load_team
from roboco.cli.interactive.run_team import Wish, run_team
from roboco.cli.terminal import options


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("prompt")
@options.context
@options.agent
@options.model
@options.title
@options.task_id
@options.as_json
@click.option("--worker", is_flag=True, help="Start a worker although ROBOCO_REDIS_URL is set.")
def run(file: Path, prompt: str, **wished: Any) -> int:
    """Run a team here and show it live.

    Without ROBOCO_REDIS_URL it starts a Redis and a worker, and without OPENAI_API_KEY and OPENAI_BASE_URL a small
    local model.

    On a terminal, Ctrl-C asks for a message and interrupts the team with it; twice stops the task. Without a terminal,
    Ctrl-C stops the task.
    """
    return run_team(load_team(file), Wish(prompt, **wished))
