"""roboco verify: whether a history is as it was written."""

import json
from contextlib import closing
from pathlib import Path

import click

from roboco.cli.commands.overview import Overview, check_complete
from roboco.cli.terminal import options
from roboco.client.orchestrator import Orchestrator
from roboco.domain.history.step import verify_chain
from roboco.errors import CorruptHistory, UsageError
from roboco.settings import read_settings


@click.command()
@click.argument("task_or_file")
@options.as_json
def verify(task_or_file: str, as_json: bool) -> int:
    """Check that no step of a history was changed.

    It is that of a task, or a history.jsonl. The exit code is 1 if a step was changed.
    """
    path = Path(task_or_file)
    try:
        steps, unfinished = _verify_file(path) if path.is_file() else (_verify_task(task_or_file), False)
    except CorruptHistory as error:
        if not as_json:
            raise
        click.echo(json.dumps({"intact": False, "error": str(error)}))
        return 1
    if as_json:
        click.echo(json.dumps({"intact": True, "steps": steps, "unfinished_line": unfinished}))
    else:
        more = "; a last line without its end is no step and was left out" if unfinished else ""
        click.echo(f"{steps} steps are intact{more}")
    return 0


def _verify_task(task_id: str) -> int:
    with closing(Orchestrator(read_settings())) as orchestrator:
        summary = Overview(orchestrator).of(task_id)
        steps = verify_chain(orchestrator.engine.histories.lines(task_id))
    check_complete(summary, steps)
    return steps


def _verify_file(path: Path) -> tuple[int, bool]:
    """How many steps the file holds, and whether it ends in what a death left of one."""
    try:
        *lines, rest = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"history {str(path)!r} cannot be read: {error.strerror}") from error
    return verify_chain(lines), rest != b""
