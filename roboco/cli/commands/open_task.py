"""Opened: one task for a command that acts on it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from roboco.client.orchestrator import Orchestrator
from roboco.client.task import Task
from roboco.settings import read_settings


@contextmanager
def opened(task_id: str) -> Iterator[Task]:
    """The task of this id, with connections that are closed afterwards; UsageError if there is none."""
    with closing(Orchestrator(read_settings())) as orchestrator:
        yield orchestrator.task(task_id)
