"""TaskStream: the reads of the merged stream of a task: from the logs in Redis, and from the workspace without them.

A task has two logs: execution events and content chunks. Each record carries the position of both, so a follower can
merge them into the one order in which they happened, live as in a replay. A cursor is such a pair of positions, with
the generation of the logs and the number of steps; it stays valid after Redis has dropped the logs.
"""

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeVar

from roboco.client.task_result import TaskResult, result_of
from roboco.domain.history.step import TaskStep
from roboco.domain.paths import events_path
from roboco.domain.stream.event import TaskEnded
from roboco.domain.stream.event_file import from_stored
from roboco.domain.stream.item import StreamItem, stream_item
from roboco.domain.stream.merged import Cursor, MergedStream
from roboco.domain.task_summary import TaskSummary
from roboco.engine.accept.at_rest import stays_at_rest
from roboco.engine.engine import Engine
from roboco.engine.retry import retry
from roboco.engine.workspace_records import check_not_erased
from roboco.errors import CorruptHistory, RobocoError
from roboco.ports.registry import LIVENESS_TIMEOUT
from roboco.redis.stream.follower import RedisFollower
from roboco.redis.stream.position import Record, StreamPosition

_log = logging.getLogger(__name__)

CHECK_INTERVAL: Final = 5.0
"""Seconds between two checks."""
LOG_INTERVAL: Final = 60.0
"""Seconds between two warnings."""


class WorkerCheck:
    """Checks regularly whether a worker processes a task. `current_cause` returns a kind and a text for people."""

    def __init__(self, task_id: str, current_cause: Callable[[], tuple[str, str] | None]) -> None:
        self._task_id = task_id
        self._current_cause = current_cause
        self.has_own_worker = False
        """True if this process watches the worker that it has started: that it is not registered yet is no cause."""
        self._due = time.monotonic() + LIVENESS_TIMEOUT
        self._logged = -LOG_INTERVAL
        self.missing_worker = ""
        """Why the task did not go on at the last check, or ""."""

    def is_due(self) -> bool:
        """Return True if a check is due."""
        return time.monotonic() >= self._due

    def check(self) -> None:
        """Check if it is due, and log a warning if no worker processes the task. It raises no RobocoError."""
        if not self.is_due():
            return
        now = time.monotonic()
        self._due = now + CHECK_INTERVAL
        try:
            cause = self._current_cause()
        except RobocoError as error:
            _log.debug("the workers of task %s are not known: %s", self._task_id, error)
            return
        kind, text = cause or ("", "")
        self.missing_worker = "" if self.has_own_worker and kind == "no_worker" else text
        if self.missing_worker and now - self._logged >= LOG_INTERVAL:
            self._logged = now
            _log.warning("task %s waits: %s", self._task_id, self.missing_worker)


T = TypeVar("T")
UNREACHABLE_TIMEOUT: Final = 60.0
"""Seconds for which a follower retries a server that does not answer."""
READ_STEPS: Final = 1_000
"""Steps that a stream reads from the history at a time. A garbage collection of many more would block the process."""
TASK_END: Final = "event_task_end"
MIN_RECHECK_DELAY: Final = 0.005
MAX_RECHECK_DELAY: Final = 0.05
"""Seconds between two reads of a task that has ended, while a coordinator completes its workspace."""
_NOT_AT_REST: Final = {
    f"event_{kind}" for kind in ("agent_select", "agent_handoff", "tool_call", "tool_result", "step_end")
}
"""Events after which a task always continues: a client that waits for its end does not read it after them."""


class TaskStream:
    """Reads one task for its followers. Every method blocks (`async_stream.py` calls them in threads)."""

    def __init__(
        self,
        task_id: str,
        engine: Engine,
        follower: RedisFollower,
        summary: Callable[[], TaskSummary],
        worker_check: WorkerCheck,
    ) -> None:
        self.task_id = task_id
        self._engine = engine
        self._follower = follower
        self._summary = summary
        self.worker_check = worker_check

    @property
    def engine_id(self) -> int:
        """The identity of the workspace and the Redis of the task, while this object lives."""
        return id(self._engine)

    def read_steps(self, start: int) -> list[TaskStep]:
        """Return the committed steps from this position on."""
        return list(self.iter_steps(start))

    def iter_steps(self, start: int) -> Iterator[TaskStep]:
        """Yield the committed steps from this position on. It holds READ_STEPS of them, however many there are."""
        steps = self._read_some(start)
        while steps:
            yield from steps
            steps = self._read_some(steps[-1].seq + 1) if len(steps) == READ_STEPS else []

    def _read_some(self, start: int) -> list[TaskStep]:
        return self._retrying(
            lambda: list(islice(self._engine.workspace.histories.read(self.task_id, start), READ_STEPS))
        )

    def step(self, seq: int) -> TaskStep | None:
        """Return the committed step at this position, or None if there is none."""
        return self._retrying(lambda: next(iter(self._engine.workspace.histories.read(self.task_id, seq)), None))

    def is_over(self) -> bool:
        """Return True if the task has ended, also if its workspace does not have the end yet."""
        task = self._retrying(lambda: self._engine.tasks.task_store.load(self.task_id, 1))
        return self.has_ended() if task is None else task.position.status.ended

    def summary(self) -> TaskSummary:
        """Return the task at a glance."""
        return self._retrying(self._summary)

    def stays_at_rest(self, summary: TaskSummary) -> bool:
        """Return True if the task is at rest, and no accepted item ends its wait."""
        return self._retrying(lambda: stays_at_rest(self._engine, summary))

    def result(self, summary: TaskSummary) -> TaskResult:
        """Return the result of the task with this summary. Reads the whole history."""
        return result_of(summary, self.read_steps(0))

    def has_ended(self) -> bool:
        """Return True if the task has ended according to its workspace. Raise Erased if it was erased.

        Of a task that is not accepted yet, the workspace has nothing.
        """
        summary = self._retrying(lambda: self._engine.workspace.summaries.get(self.task_id))
        if summary is None:
            self._retrying(lambda: check_not_erased(self._engine.workspace.files, self.task_id))
        return summary is not None and summary.status.ended

    def remaining(self, view: MergedStream, position: StreamPosition) -> Iterator[StreamItem]:
        """Yield the items of an ended task that the follower lacks: from the logs, else from the workspace.

        The last item is the end of the task, unless the follower has it.
        """
        at, ended = view.cursor, False
        if self._retrying(lambda: self._engine.tasks.task_store.load(self.task_id, 1)) is not None:
            records: Iterable[dict[str, Any]] = self._follower.replay(self.task_id, position)
        else:
            records = self._stored_events(view)
        for record in records:
            yield from view.feed(record)
            ended = record["type"] == TASK_END
        if not (ended or self._is_past_end(at)):
            yield from view.missing_steps()
            yield stream_item(_end_event(self.summary()), str(view.cursor))

    def _retrying(self, read: Callable[[], T]) -> T:
        """Return the result of a read, retried while a server restarts."""
        return retry(read, lambda: True, f"reading task {self.task_id}", self._engine.clock, UNREACHABLE_TIMEOUT)

    def _is_past_end(self, cursor: Cursor) -> bool:
        """Return True if the workspace has the end of the task, and the cursor is not before it."""
        end = next(self._parsed(reversed(self._stored_lines())), {})
        return end.get("type") == TASK_END and end["generation"] == cursor.generation and end["seq"] <= cursor.events

    def _stored_lines(self) -> list[bytes]:
        return (self._retrying(lambda: self._engine.workspace.files.get(events_path(self.task_id))) or b"").splitlines()

    def _parsed(self, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        """Yield the events of stored lines. Raise CorruptHistory if one cannot be read."""
        for line in lines:
            try:
                event: dict[str, Any] = json.loads(line)
            except ValueError:
                raise CorruptHistory(f"{events_path(self.task_id)!r} holds an event that cannot be read") from None
            yield event

    def _stored_events(self, view: MergedStream) -> Iterator[dict[str, Any]]:
        lines = self._stored_lines()
        generation = next(self._parsed(reversed(lines)), {}).get("generation", "")
        # A cursor of an earlier generation counts records of logs that Redis has lost: all events follow again.
        seen = view.cursor.events if view.cursor.generation == generation else 0
        records = self._parsed(lines)
        new = (record for record in records if record["generation"] == generation and record["seq"] > seen)
        return from_stored(new, self.iter_steps)


def is_at_rest(summary: TaskSummary) -> bool:
    """Return True if the task has ended or waits: it does not continue by itself."""
    return summary.status.ended or summary.status.waiting


def recheck_delays(event: Record | None) -> Iterator[float]:
    """Yield the delay in seconds after each read of a task for which this event arrived.

    Without an event the task may have changed, and one read is due. After an event that always precedes another step,
    no read is due. After the end of the task, reads follow with growing delays until its workspace is complete.
    """
    kind = None if event is None else str(event.get("type"))
    delay = MIN_RECHECK_DELAY
    while kind == TASK_END:
        yield delay
        delay = min(2 * delay, MAX_RECHECK_DELAY)
    if kind not in _NOT_AT_REST:
        yield 0.0


def _end_event(summary: TaskSummary) -> TaskEnded:
    usage = {
        "tokens_in": summary.tokens_in,
        "tokens_out": summary.tokens_out,
        "steps": summary.steps,
        "cost": summary.cost,
    }
    return TaskEnded(
        task_id=summary.task_id,
        timestamp=summary.updated_at,
        status=summary.status,
        reason=summary.reason,
        usage=usage,
    )
