"""Sampler: takes one snapshot after another, from Redis, the broker and the workspace."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from roboco.cli.top.snapshot import TaskRow, TopSnapshot
from roboco.client.orchestrator import Orchestrator
from roboco.engine.accept.evidence import MIN_SILENCE
from roboco.errors import TransientError
from roboco.redis.monitor import LiveTask

MAX_CAUSES: Final = 20
"""Tasks in a picture whose causes are looked up."""
MAX_WORKERS: Final = 200
"""Workers of a pool that are read."""
MAX_SILENCE: Final = 120.0
"""Seconds without a registration after which a lost worker is left out. One that has ended is not registered."""


class Sampler:
    """Takes pictures. If a server does not answer, its part stays as it was, and the picture names the server."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator = orchestrator
        self._last = TopSnapshot(time.time())
        self._threads = ThreadPoolExecutor(2, "roboco-top")

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False)

    def sample(self, max_tasks: int) -> TopSnapshot:
        """Return a picture with at most `max_tasks` tasks."""
        now = replace(self._last, at=time.time(), errors=())
        # Both at once: each may take its whole time-out.
        queues = self._threads.submit(lambda: {"queues": tuple(self._orchestrator.operator.operations.queues())})
        parts = [self._threads.submit(self._sample_redis, now.at, max_tasks), queues]
        for part in parts:
            try:
                now = replace(now, **part.result())
            except TransientError as error:
                now = replace(now, errors=(*now.errors, str(error)))
        self._last = now
        return now

    def _sample_redis(self, at: float, most: int) -> dict[str, Any]:
        operations = self._orchestrator.operator.operations
        found, overview = operations.tasks(most), operations.overview()
        before = {row.task.task_id: row.task.tokens_out for row in self._last.tasks}
        seconds = at - self._last.at

        def row(task: LiveTask) -> TaskRow:
            known = before.get(task.task_id)
            rate = None if known is None or seconds <= 0 else max(0.0, (task.tokens_out - known) / seconds)
            return TaskRow(task, found.teams.get(task.task_id, ""), rate)

        return {
            "open_tasks": overview.open_tasks,
            "dead_letters": overview.dead_letters,
            "workers": tuple(one for one in operations.workers(MAX_WORKERS).workers if one.silent_for < MAX_SILENCE),
            "tasks": tuple(map(row, self._with_causes(found.tasks))),
            "rates": found.rates,
        }

    def _with_causes(self, tasks: Sequence[LiveTask]) -> Iterator[LiveTask]:
        """Yield the tasks; the first ones that do not go on with the cause of that, as `roboco why` names it."""
        idle = 0
        for task in tasks:
            works = task.working and task.silent_for < MIN_SILENCE
            idle += not works
            if works or idle > MAX_CAUSES:
                yield task
                continue
            found = self._orchestrator.open_task(task.task_id)
            cause = "" if found is None else found.missing_worker()
            yield replace(task, reason=cause) if cause else task
