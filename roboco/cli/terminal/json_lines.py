"""JsonLines: a task's stream for programs, one JSON object a line."""

import json
from typing import TextIO

from roboco.domain.stream.item import StreamItem


class JsonLines:
    """Prints each item as it arrives: its fields, with `type` and the `cursor` after which a later call continues."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def show(self, item: StreamItem) -> None:
        """Print the item."""
        about = {"task_id": item.task_id} if item.task_id else {}
        record = {"type": item.type, "cursor": item.cursor} | item.data.model_dump(mode="json") | about
        self._file.write(f"{json.dumps(record)}\n")
        self._file.flush()
