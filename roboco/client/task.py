"""Task: one task as its caller sees it, from any process."""

import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from roboco.adapters.artifacts import read_artifact
from roboco.adapters.redis.follower import Position, RedisFollower
from roboco.client.intake import take_message, take_resolution, take_stop
from roboco.domain.event import TaskEnded
from roboco.domain.event_file import as_sent
from roboco.domain.paths import artifacts_path, events_path, summary_path
from roboco.domain.status import TaskStatus
from roboco.domain.step import TaskStep
from roboco.domain.summary import TaskSummary
from roboco.domain.view import Cursor, StreamItem, View
from roboco.engine.engine import Engine
from roboco.engine.insist import insist
from roboco.errors import UsageError

T = TypeVar("T")
PATIENCE = 60.0
"""Seconds for which a server that does not answer is waited for, by who follows a task or waits for its end."""
TASK_END = "event_task_end"


@dataclass(frozen=True)
class TaskResult:
    """What a task has come to: `text` is what an agent said last."""

    task_id: str
    status: TaskStatus
    reason: str
    text: str


class Task:
    """A submitted task. Iterating over it yields the merged stream until the task has ended."""

    def __init__(self, task_id: str, engine: Engine, follower: RedisFollower) -> None:
        self.task_id = task_id
        self._engine = engine
        self._follower = follower

    def __iter__(self) -> Iterator[StreamItem]:
        return self.stream()

    def __repr__(self) -> str:
        return f"Task({self.task_id!r})"

    def stream(self, cursor: str | None = None) -> Iterator[StreamItem]:
        """Everything after the cursor, from the beginning without one, live until the task has ended.

        Items are the texts, tool calls, tool results and steps of the content and the execution events, in the
        order in which they happened. Each carries the cursor from which a later call goes on, without a
        repetition and without a hole. Ending the iteration does not touch the task. TransientError if Redis or the
        workspace has not answered for a minute.
        """
        at = Cursor.parse(cursor) if cursor else Cursor()
        view = View(at, self._read_steps)
        position = Position(at.generation, at.events, at.chunks)
        for record in self._follower.follow(self.task_id, position):
            if record is not None:
                yield from view.take(record)
                if record["type"] == TASK_END:
                    return
            elif self._ended():
                yield from self._rest(view, position)
                return

    def result(self, timeout: float | None = None) -> TaskResult:
        """Wait until the task has ended or waits for its user; TimeoutError after `timeout` seconds.

        TransientError if Redis or the workspace has not answered for a minute.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            summary = self._patiently(self.summary)
            if summary.status.ended or summary.status.waiting:
                return TaskResult(self.task_id, summary.status, summary.reason, self._last_text())
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"task {self.task_id!r} is {summary.status} after {timeout:g} s")
            time.sleep(0.05)

    def send(self, message: str, agent: str | None = None, item_id: str | None = None) -> None:
        """Add a message of the user; a task that waits goes on, and `agent` may name who answers.

        The same `item_id` again is the same message. UsageError if the task has ended.
        """
        arguments = {"task_id": self.task_id, "message": message, "agent": agent}
        take_message(self._engine, arguments, item_id or uuid.uuid4().hex)

    def stop(self, reason: str = "stopped by the user", item_id: str | None = None) -> None:
        """End the task now. It ends as `cancelled`; a task that has ended stays as it is."""
        take_stop(self._engine, {"task_id": self.task_id, "reason": reason}, item_id or uuid.uuid4().hex)

    def resolve(self, call_id: str, happened: bool, result: Any = None, item_id: str | None = None) -> None:
        """Say of a tool call whose outcome nobody knows whether it had its effect, and with what `result` (any JSON).

        The task waits for it in status `approval`, if the tool says `on_unknown: ask`. The first word on a call counts;
        the same `item_id` again is the same word. UsageError if the call waits for nobody.
        """
        arguments = {"task_id": self.task_id, "call_id": call_id, "happened": happened, "result": result}
        take_resolution(self._engine, arguments, item_id or uuid.uuid4().hex)

    def history(self) -> list[TaskStep]:
        """The committed steps."""
        return list(self._engine.histories.read(self.task_id))

    def summary(self) -> TaskSummary:
        """The task at a glance, as it stands now; UsageError if there is no such task."""
        data = self._engine.files.get(summary_path(self.task_id))
        if data is None:
            raise UsageError(f"no task {self.task_id!r} in this workspace")
        stored = TaskSummary.model_validate_json(data)
        live = None if stored.status.ended else self._engine.board.load(self.task_id, 1)
        if live is None:
            return stored
        if live.status.ended:  # the workspace is being completed: not ended before that is done
            return stored.model_copy(update={"status": TaskStatus.RUNNING, "steps": live.seq})
        state = live.state
        return stored.model_copy(
            update={
                "status": live.status,
                "reason": live.reason,
                "steps": live.seq,
                "tokens_in": state.tokens_in,
                "tokens_out": state.tokens_out,
            }
        )

    def artifacts(self) -> list[str]:
        """The names of the task's files."""
        return self._engine.files.names(artifacts_path(self.task_id))

    def artifact(self, name: str) -> bytes:
        """The bytes of one of the task's files; UsageError if there is none of this name."""
        return read_artifact(self._engine.files, self.task_id, name)

    def _last_text(self) -> str:
        return next((step.text for step in reversed(self._read_steps(0)) if step.by_agent), "")

    def _patiently(self, read: Callable[[], T]) -> T:
        """What it reads, also while a server is started again."""
        return insist(self._engine, read, lambda: True, f"a look at task {self.task_id}", PATIENCE)

    def _read_steps(self, start: int) -> list[TaskStep]:
        return self._patiently(lambda: list(self._engine.histories.read(self.task_id, start)))

    def _ended(self) -> bool:
        data = self._patiently(lambda: self._engine.files.get(summary_path(self.task_id)))
        return data is not None and TaskSummary.model_validate_json(data).status.ended

    def _rest(self, view: View, position: Position) -> Iterator[StreamItem]:
        """What a follower of an ended task still lacks: from the logs, or from the workspace where they lack it."""
        if self._patiently(lambda: self._engine.board.load(self.task_id, 1)) is not None:
            records: Iterable[dict[str, Any]] = self._follower.replay(self.task_id, position)
        else:
            records = self._stored_events(view)
        for record in records:
            yield from view.take(record)
        summary = self._patiently(self.summary)
        if view.cursor.steps < summary.steps:
            yield from view.from_history()
            yield StreamItem(_end_of(summary), str(view.cursor))

    def _stored_events(self, view: View) -> Iterator[dict[str, Any]]:
        stored = self._patiently(lambda: self._engine.files.get(events_path(self.task_id))) or b""
        records: list[dict[str, Any]] = [json.loads(line) for line in stored.splitlines()]
        generation = records[-1]["generation"] if records else ""
        had = view.cursor.events if view.cursor.generation == generation else 0
        new = [record for record in records if record["generation"] == generation and record["seq"] > had]
        return as_sent(new, self._read_steps)


def _end_of(summary: TaskSummary) -> TaskEnded:
    usage = {"tokens_in": summary.tokens_in, "tokens_out": summary.tokens_out, "steps": summary.steps}
    return TaskEnded(
        task_id=summary.task_id,
        timestamp=summary.updated_at,
        status=summary.status,
        reason=summary.reason,
        usage=usage,
    )
