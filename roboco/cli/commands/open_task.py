"""open_task: one task, for a command that acts on it."""

from collections.abc import Iterator
from contextlib import contextmanager

from roboco.cli.terminal.caller import caller_settings
from roboco.client.orchestrator import Orchestrator
from roboco.client.task import Task


@contextmanager
def open_task(task_id: str) -> Iterator[Task]:
    """Yield the task with this id, and close its connections afterwards. Raises UsageError if there is none."""
    with Orchestrator(caller_settings()) as orchestrator:
        yield orchestrator.task(task_id)
