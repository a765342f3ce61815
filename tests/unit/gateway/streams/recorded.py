"""A task whose stream was recorded: its followers read the log, from any cursor."""

from collections.abc import AsyncGenerator
from typing import Any, cast

from roboco.client.task import Task
from roboco.domain.stream.item import StreamItem
from roboco.domain.stream.merged import Cursor
from tests.unit.domain.stream.test_merged import StreamServer, resume


class RecordedTask:
    """The stream of a task that has ended."""

    def __init__(self, server: StreamServer, task_id: str = "task") -> None:
        self.task_id = task_id
        self._server = server

    @property
    def task(self) -> Task:
        """This object in place of a task."""
        return cast(Task, self)

    def items(self, cursor: str | None = None) -> list[StreamItem]:
        """Return the items after the cursor."""
        return resume(self._server, cursor or str(Cursor()))

    async def astream(self, cursor: str | None = None) -> AsyncGenerator[StreamItem, None]:
        """Yield the items after the cursor."""
        for item in self.items(cursor):
            yield item

    async def astream_with_gaps(
        self, cursor: str | None = None, *, subtasks: bool = False
    ) -> AsyncGenerator[StreamItem | None, None]:
        """Yield the items after the cursor, each after a None."""
        for item in self.items(cursor):
            yield None
            yield item


def data_of(frames: list[Any]) -> list[Any]:
    """Return the type and data of frames, without their places."""
    return [(frame.kind, frame.data) for frame in frames]
