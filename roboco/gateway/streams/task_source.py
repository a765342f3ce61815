"""TaskSource: the stream of one task.

    task.astream_with_gaps(place) ─► item ─► selection: shown ─► frame with the item's cursor as its id
                                                        hidden ─► the next ping, or every 200th, names the place

An item that is hidden moves the place, so that a client that resumes does not read it again.
"""

from collections.abc import AsyncGenerator
from typing import Final

from roboco.client.task import Task
from roboco.domain.stream.item import StreamItem
from roboco.gateway.streams.ending import Ending
from roboco.gateway.streams.form import Form, Source
from roboco.gateway.streams.place import end_place
from roboco.gateway.streams.selection import Selection

_last_frames: Final[dict[type[Form], tuple[StreamItem, bytes]]] = {}
"""The newest frame of each form. Live followers of a task get the same item in turn, and share its frame."""


class TaskSource(Source[StreamItem]):
    """The items of a task after a place, as frames of one form."""

    place: str = ""

    def __init__(self, task: Task, place: str, selection: Selection, form: type[Form], subtasks: bool = False) -> None:
        self.form = form
        self.place = place
        self._task = task
        self._selection = selection
        self._subtasks = subtasks

    def items(self) -> AsyncGenerator[StreamItem | None, None]:
        """Yield the items after the place."""
        return self._task.astream_with_gaps(self.place or None, subtasks=self._subtasks)

    def frame(self, item: StreamItem) -> bytes:
        """Return the frame of an item, or b"" if the client does not ask for it."""
        self.place = item.cursor
        if self._selection.shows(item):
            self._hidden = 0
            if self._selection.form is not None:
                return self.form.frame(item.cursor, *self._selection.content(item))
            return _shared_frame(self.form, item)
        return self.hidden_frame()

    def last_place(self, ending: Ending) -> str:
        """Return the place, or the one after the end of the task."""
        return end_place(self.place) if ending.final else self.place


def _shared_frame(form: type[Form], item: StreamItem) -> bytes:
    """Return the frame of an item: the same object for all streams of one form that show the item in turn."""
    last = _last_frames.get(form)
    if last is not None and last[0] is item:
        return last[1]
    frame = form.frame(item.cursor, item.type, item.data_json)
    _last_frames[form] = item, frame
    return frame
