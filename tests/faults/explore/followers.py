"""Clients that follow a task live, after a reconnection, or once the task is closed, and one that polls its session."""

from collections.abc import Iterator
from functools import partial
from typing import Any, cast

from roboco.client.session import poll, session
from roboco.client.stream import TaskStream, WorkerCheck
from roboco.domain.session.session import SessionMessage
from roboco.domain.status import TaskStatus
from roboco.domain.stream.item import ItemData, StepFinal, TextPartDelta
from roboco.domain.stream.merged import Cursor, MergedStream
from roboco.engine.accept.wait_cause import current_cause
from roboco.engine.workspace_records import StoredEvents
from roboco.redis.logs import PAGE_SIZE
from roboco.redis.stream.follower import RedisFollower
from roboco.redis.stream.log_merger import LOST_EVENTS, LogMerger
from roboco.redis.stream.position import Record, StreamPosition
from tests.faults.explore.violation import Violation
from tests.support.memory_ports.reader import ItemReader
from tests.support.memory_ports.server import StoredTask
from tests.support.memory_ports.world import World


class LenientReader(ItemReader):
    """A reader that drops the text of a step that it already holds, once Redis has lost data.

    A worker with a state older than the workspace may stream text until it stores its step. The stored step counts.
    """

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def show(self, item: ItemData) -> None:
        """Apply one item."""
        late = isinstance(item, TextPartDelta) and item.step_id in {step.step_id for step in self.steps}
        server = self._world.server
        lost = server.instance > 1 or server.wiped
        if lost and isinstance(item, StepFinal):
            self.texts[item.step.step_id] = item.step.text
        if not (late and lost):
            super().show(item)


class _Logs:
    """The logs of a task in memory, in pages."""

    def __init__(self, task: StoredTask) -> None:
        self._task = task

    def page(self, log: str, after: int, size: int) -> list[tuple[int, str]]:
        """Return at most `size` numbers and messages of a log after this number."""
        task = self._task
        first, messages = (task.first_event, task.events) if log == "events" else (task.first_chunk, task.chunks)
        return [entry for entry in enumerate(messages, first) if entry[0] > after][:size]


class TaskFollower:
    """A follower of a task's logs, with the reader of a client. `ends` counts the received ends of the task."""

    def __init__(self, world: World, task_id: str) -> None:
        self.world = world
        self.task_id = task_id
        self.reader = LenientReader(world)
        self.ends = 0
        self.violation: Violation | None = None
        self._view = MergedStream(Cursor(), partial(world.histories.read, task_id))
        self._position = StreamPosition()
        self._published = 0

    def read_logs(self) -> None:
        """Read the logs, if a message was published since the last read."""
        published = len(self.world.server.published)
        if published == self._published or self.ends or self.violation is not None:
            return
        self._published = published
        try:
            self._take(self.replay(self.task_id, self._position))
        except AssertionError as error:
            self.violation = Violation("follower", str(error))

    def finish(self) -> None:
        """Read the rest of a closed task, as the client library does."""
        if self.ends or self.violation is not None:
            return
        logs = cast(RedisFollower, self)
        summary = partial(self.world.summary, self.task_id)
        worker_check = WorkerCheck(self.task_id, lambda: current_cause(self.world.engine, "memory", self.task_id))
        following = TaskStream(self.task_id, self.world.engine, logs, summary, worker_check)
        for item in following.remaining(self._view, self._position):
            self._show(item.data)

    def replay(self, task_id: str, position: StreamPosition, page: int | None = None) -> Iterator[Record]:
        """Yield the records of the logs after the position, merged as RedisFollower does."""
        task = self.world.server.held.tasks.get(task_id)
        if task is None:
            return
        if task.generation != position.generation:
            position.reset(task.generation)
        archive = StoredEvents(self.world.files, self.world.histories)
        merger = LogMerger(_Logs(task).page, archive.read, task_id, ("chunks", "events"), page or PAGE_SIZE)
        for record in merger.merge(position):
            if record["type"] == "event_error" and record["code"] == LOST_EVENTS:
                raise AssertionError(record["message"])
            yield position.advance(record)

    def _take(self, records: Iterator[Record]) -> None:
        for record in records:
            for item in self._view.feed(record):
                self._show(item.data)
            if self.ends:
                return

    def _show(self, item: Any) -> None:
        self.reader.show(item)
        if item.type == "event_task_end":
            self.ends += 1


class SessionClient:
    """A client that polls deltas, as a browser does."""

    def __init__(self, world: World, task_id: str) -> None:
        self._world = world
        self._task_id = task_id
        self._messages: dict[int, SessionMessage] = {}
        self._token = ""
        self._status: TaskStatus | None = None

    def poll(self) -> str:
        """Poll a delta. Return how the client's conversation then differs from the whole session, or ""."""
        new = poll(self._world.engine, self._task_id, self._token).changes
        kept = (
            self._messages if new.rewind_to is None else {i: m for i, m in self._messages.items() if i < new.rewind_to}
        )
        self._messages = kept | new.messages_by_idx
        self._token, self._status = new.continuation_token, new.status or self._status
        whole = session(self._world.engine, self._task_id)
        if dict(enumerate(whole.messages)) != self._messages:
            return f"{sorted(self._messages)} of {len(whole.messages)} messages"
        return "" if self._status is whole.status else f"{self._status}, {whole.status}"
