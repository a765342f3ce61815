"""Position: how far a follower has got in the two logs of a task."""

import json
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]
"""A message of either channel, as it was sent."""


@dataclass
class Position:
    """The last numbers that a follower has, of one generation of the logs."""

    generation: str = ""
    events: int = 0
    chunks: int = 0

    def fits(self, record: Record) -> bool:
        """Whether the message is the very next one, with nothing of the other channel before it."""
        if record.get("generation") != self.generation:
            return False
        if "chunks" in record:
            return (record["seq"], record["chunks"]) == (self.events + 1, self.chunks)
        return (record["seq"], record["events"]) == (self.chunks + 1, self.events)

    def has(self, record: Record) -> bool:
        """Whether the follower had the message before."""
        mine = self.events if "chunks" in record else self.chunks
        return record.get("generation") == self.generation and int(record["seq"]) <= mine

    def begin(self, generation: str) -> None:
        """Nothing of this generation was had yet."""
        self.generation, self.events, self.chunks = generation, 0, 0

    def take(self, record: Record) -> Record:
        """Note the message as had, and return it."""
        if "chunks" in record:
            self.events = record["seq"]
        else:
            self.chunks = record["seq"]
        return record


def read_record(message: str | bytes) -> Record | None:
    """The message's JSON; None if it is none: anybody may publish, and what is true stands in the logs."""
    try:
        record = json.loads(message)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
