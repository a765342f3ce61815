"""Following: a task's merged stream, live from the logs, and from the workspace what these do not hold any more."""

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any, TypeVar

from roboco.adapters.redis.stream.follower import RedisFollower
from roboco.adapters.redis.stream.position import Position, Record
from roboco.client.attendance import Attendance
from roboco.client.task_result import TaskResult, result_of
from roboco.domain.history.step import TaskStep
from roboco.domain.paths import events_path
from roboco.domain.stream.event import TaskEnded
from roboco.domain.stream.event_file import as_sent
from roboco.domain.stream.item import StreamItem, stream_item
from roboco.domain.stream.merged import Cursor, View
from roboco.domain.task_summary import TaskSummary
from roboco.engine.engine import Engine
from roboco.engine.record.summaries import stored_summary
from roboco.engine.retry import retry

T = TypeVar("T")
PATIENCE = 60.0
"""Seconds for which a server that does not answer is waited for, by who follows a task or waits for its end."""
TASK_END = "event_task_end"
FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.05
"""Seconds between two looks at a task that has ended and whose workspace is being completed."""
_TALK = {f"event_{kind}" for kind in ("agent_select", "agent_handoff", "tool_call", "tool_result", "step_end")}
"""Events after which a task goes on."""


class Following:
    """Follows one task; `summary` gives the task at a glance. `attendance` is checked while nothing happens."""

    def __init__(
        self,
        task_id: str,
        engine: Engine,
        follower: RedisFollower,
        summary: Callable[[], TaskSummary],
        attendance: Attendance,
    ) -> None:
        self.task_id = task_id
        self._engine = engine
        self._follower = follower
        self._summary = summary
        self.attendance = attendance

    def stream(self, cursor: str | None) -> Iterator[StreamItem]:
        """Everything after the cursor, from the beginning without one, live until the task has ended."""
        at = Cursor.parse(cursor) if cursor else Cursor()
        view = View(at, self.read_steps)
        position = Position(at.generation, at.events, at.chunks)
        for record in self._follower.follow(self.task_id, position):
            if record is not None:
                yield from view.take(record)
                if record["type"] == TASK_END:
                    return
            elif self.ended():
                yield from self.rest(view, position)
                return
            else:
                self.attendance.check()

    @property
    def place(self) -> int:
        """Stands for the workspace and the Redis that the task is in, while this object lives."""
        return id(self._engine)

    def read_steps(self, start: int) -> list[TaskStep]:
        """The committed steps from a position on."""
        return self._patiently(lambda: list(self._engine.histories.read(self.task_id, start)))

    def summary(self) -> TaskSummary:
        """The task at a glance."""
        return self._patiently(self._summary)

    def settled(self, until: float = math.inf) -> TaskSummary:
        """The task as soon as it has ended or waits, or as it stands at the time `until` of the monotonic clock."""
        if is_settled(summary := self.summary()) or time.monotonic() >= until:
            return summary
        with closing(self._follower.stirs(self.task_id, until)) as stirs:
            for event in stirs:
                for pause in looks(event):
                    summary = self.summary()
                    if is_settled(summary) or time.monotonic() > until:
                        return summary
                    self.attendance.check()
                    time.sleep(pause)
        raise AssertionError("stirs do not end")

    def result(self, summary: TaskSummary) -> TaskResult:
        """What the task with this summary has come to; reads its whole history."""
        return result_of(summary, self.read_steps(0))

    def ended(self) -> bool:
        """Whether the task has ended, by its workspace."""
        summary = self._patiently(lambda: stored_summary(self._engine, self.task_id))
        return summary is not None and summary.status.ended

    def rest(self, view: View, position: Position) -> Iterator[StreamItem]:
        """What a follower of an ended task still lacks: from the logs, or from the workspace where they lack it.

        The last item is the end, unless the follower has it.
        """
        at, ended = view.cursor, False
        if self._patiently(lambda: self._engine.board.load(self.task_id, 1)) is not None:
            records: Iterable[dict[str, Any]] = self._follower.replay(self.task_id, position)
        else:
            records = self._stored_events(view)
        for record in records:
            yield from view.take(record)
            ended = record["type"] == TASK_END
        if not (ended or self._has_end(at)):
            yield from view.from_history()
            yield stream_item(_end_of(self.summary()), str(view.cursor))

    def _patiently(self, read: Callable[[], T]) -> T:
        """What it reads, also while a server is started again."""
        return retry(self._engine, read, lambda: True, f"a look at task {self.task_id}", PATIENCE)

    def _has_end(self, cursor: Cursor) -> bool:
        """Return True if the end, as the workspace has it, is not after the cursor."""
        last = next(reversed(self._stored_lines()), b"{}")
        end: dict[str, Any] = json.loads(last)
        return end.get("type") == TASK_END and end["generation"] == cursor.generation and end["seq"] <= cursor.events

    def _stored_lines(self) -> list[bytes]:
        return (self._patiently(lambda: self._engine.files.get(events_path(self.task_id))) or b"").splitlines()

    def _stored_events(self, view: View) -> Iterator[dict[str, Any]]:
        records: list[dict[str, Any]] = [json.loads(line) for line in self._stored_lines()]
        generation = records[-1]["generation"] if records else ""
        had = view.cursor.events if view.cursor.generation == generation else 0
        new = [record for record in records if record["generation"] == generation and record["seq"] > had]
        return as_sent(new, self.read_steps)


def is_settled(summary: TaskSummary) -> bool:
    """Whether nothing more comes of the task by itself."""
    return summary.status.ended or summary.status.waiting


def looks(event: Record | None) -> Iterator[float]:
    """The pauses in seconds after looks at a task of which this was heard; None: it may have changed.

    One look, or none where the event settles nothing. The workspace of one that has ended is being completed.
    """
    kind = None if event is None else str(event.get("type"))
    pause = FIRST_PAUSE
    while kind == TASK_END:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)
    if kind not in _TALK:
        yield 0.0


def _end_of(summary: TaskSummary) -> TaskEnded:
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
