"""TasksSource: one stream of several tasks, since a browser allows six connections to a host.

    each task: items ─► pump ─► one place in line ─► item ─► frame, whose id has the place of every task
    a pump waits until its item is taken, so that a slow client holds one item of each task
    a damaged task ─► `task_error`, once; its place stays, the others continue
    a silent server ─► the stream ends: the client resumes all tasks

The order of the items of one task is kept. A task that ends leaves the others alone; its place says that it has ended.
If damaged tasks alone are left, the stream ends with the error of the first one, since it is not whole.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from roboco.client.task import Task
from roboco.domain.stream.item import StreamItem
from roboco.errors import TransientError
from roboco.gateway.problem import Problem
from roboco.gateway.streams.ending import failed
from roboco.gateway.streams.form import Form, Source
from roboco.gateway.streams.place import end_place, is_end
from roboco.gateway.streams.selection import Selection

TASK_ERROR: Final = "task_error"
"""The type of the frame of a task that cannot be followed."""


@dataclass(frozen=True)
class TaskItem:
    """An item of a task, None after its last one, or the problem of a task whose items end before."""

    task_id: str
    item: StreamItem | Problem | None


class TasksSource(Source[TaskItem]):
    """The items of several tasks, each after its place. `damaged` are tasks of which not even the summary is whole."""

    def __init__(
        self,
        tasks: Sequence[Task],
        places: Mapping[str, str],
        selection: Selection,
        form: type[Form],
        damaged: Mapping[str, Problem] = MappingProxyType({}),
    ) -> None:
        self.form = form
        self._tasks = tasks
        self._damaged = damaged
        self._places = dict(places)
        self._selection = selection

    async def items(self) -> AsyncGenerator[TaskItem | None, None]:
        """Yield the items of all tasks as they arrive, and the problem of each damaged task.

        Raise TransientError if a server does not answer, and at the end the first of these problems.
        """
        line: asyncio.Queue[TaskItem | TransientError] = asyncio.Queue(1)
        damaged = {name: problem for name, problem in self._damaged.items() if not is_end(self._places[name])}
        problems = list(damaged.values())
        for name, problem in damaged.items():
            yield TaskItem(name, problem)
        open_tasks = [task for task in self._tasks if not is_end(self._places[task.task_id])]
        pumps = [asyncio.create_task(self._pump(task, line)) for task in open_tasks]
        try:
            left = len(pumps)
            while left:
                found = await line.get()
                if isinstance(found, TransientError):
                    raise found
                if isinstance(found.item, Problem):
                    problems.append(found.item)
                left -= found.item is None or isinstance(found.item, Problem)
                yield found
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        if problems:
            raise problems[0]

    def frame(self, item: TaskItem) -> bytes:
        """Return the frame of an item: its data are the task's id, its place and the data of the item."""
        task_id, shown = item.task_id, item.item
        if isinstance(shown, Problem):
            self._hidden = 0
            about = {"code": shown.code, "detail": shown.detail, "remedy": shown.remedy}
            return self.form.frame(self.place, TASK_ERROR, json.dumps({"task_id": task_id, "data": about}))
        if shown is None:
            self._places[task_id] = end_place(self._places[task_id])
            self._hidden += 1
            return b""
        self._places[task_id] = shown.cursor
        if self._selection.shows(shown):
            self._hidden = 0
            data = f'{{"task_id":"{task_id}","place":"{shown.cursor}","data":{shown.data_json}}}'
            return self.form.frame(self.place, shown.type, data)
        return self.hidden_frame()

    @property
    def place(self) -> str:
        """The id with the places of all tasks."""
        return ",".join(self._places.values())

    async def _pump(self, task: Task, line: "asyncio.Queue[TaskItem | TransientError]") -> None:
        """Put the items of a task into the line, then the mark of its end, or its error."""
        try:
            async with aclosing(task.astream(self._places[task.task_id] or None)) as items:
                async for item in items:
                    await line.put(TaskItem(task.task_id, item))
            await line.put(TaskItem(task.task_id, None))
        except TransientError as error:
            await line.put(error)
        except Exception as error:  # damaged data raise any
            await line.put(TaskItem(task.task_id, failed(error).problem))
