"""roboco verify: compare each step of a history with its digest."""

from pathlib import Path

import click

from roboco.cli.terminal import options
from roboco.cli.terminal.current_summary import check_complete, current_summary
from roboco.cli.terminal.exit import FAILED, SUCCESS
from roboco.cli.terminal.json_output import print_json, print_result
from roboco.client.orchestrator import Orchestrator
from roboco.domain.history.step import verify_chain
from roboco.errors import CorruptHistory, UsageError
from roboco.settings import load_settings


@click.command()
@click.argument("task_or_file")
@options.as_json
def verify(task_or_file: str, as_json: bool) -> int:
    """Check that no step of a history was changed.

    TASK_OR_FILE is the id of a task, or the path of a history.jsonl. The exit code is 1 if a step was changed.
    """
    path = Path(task_or_file)
    try:
        steps, unfinished = _verify_file(path) if path.is_file() else (_verify_task(task_or_file), False)
    except CorruptHistory as error:
        if not as_json:
            raise
        print_json({"intact": False, "code": error.code, "message": str(error)})
        return FAILED
    more = "; a last line without its end is no step and was left out" if unfinished else ""
    record = {"intact": True, "steps": steps, "unfinished_line": unfinished}
    print_result(as_json, record, f"{steps} steps are intact{more}")
    return SUCCESS


def _verify_task(task_id: str) -> int:
    with Orchestrator(load_settings()) as orchestrator:
        task = orchestrator.stored_task(task_id)
        summary, _ = current_summary(task)
        steps = task.verify()
    check_complete(summary, steps)
    return steps


def _verify_file(path: Path) -> tuple[int, bool]:
    """Return the number of steps in the file, and whether it ends in a line that a dying process left unfinished."""
    try:
        *lines, rest = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"history {str(path)!r} cannot be read: {error.strerror}") from error
    return verify_chain(lines), rest != b""
