"""print_item: a task's stream for programs, one JSON object a line."""

import json
from typing import TextIO

from roboco.domain.stream.item import StreamItem


def print_item(file: TextIO, item: StreamItem) -> None:
    """Print the item: its fields, with `type` and the `cursor` after which a later call continues."""
    about = {"task_id": item.task_id} if item.task_id else {}
    record = {"type": item.type, "cursor": item.cursor} | item.data.model_dump(mode="json") | about
    file.write(f"{json.dumps(record)}\n")
    file.flush()
