"""Lookout: notices that nobody takes a task which was left to other people's workers."""

import time

from roboco.cli.local_model import Tell
from roboco.client.task import Task
from roboco.domain.status import TaskStatus

_LONELY = 5.0
"""Seconds after which a task that nobody takes seems to have no worker."""


class Lookout:
    """Called now and then, it says once that no worker seems to be there, if none takes the task."""

    def __init__(self, task: Task, tell: Tell) -> None:
        self._task = task
        self._tell = tell
        self._due: float | None = time.monotonic() + _LONELY

    def __call__(self) -> None:
        if self._due is None or time.monotonic() < self._due:
            return
        self._due = None
        if self._task.summary().status is TaskStatus.QUEUED:
            self._tell("no worker has taken the task; start one (celery -A roboco.workers.app worker), or use --worker")
