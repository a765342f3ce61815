"""The position of a follower in the two logs of a task."""

import json
from asyncio import Future
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]
"""A message of either channel, as it was published."""


class LiveRecord(dict[str, Any]):
    """A live message. All followers of its task in an event loop receive this object."""

    derived: Any = None
    """The results that a follower has derived from the message, for those after it."""
    whole: "Future[LiveRecord] | None" = None
    """The message with the step to which it refers, once a follower reads that, for all of them."""


@dataclass
class StreamPosition:
    """The last numbers that a follower has received, in one generation of the logs."""

    generation: str = ""
    events: int = 0
    chunks: int = 0

    def is_next(self, record: Record) -> bool:
        """Return True if the message is the next one, and no message of the other channel precedes it."""
        if record.get("generation") != self.generation:
            return False
        if "chunks" in record:
            return (record["seq"], record["chunks"]) == (self.events + 1, self.chunks)
        return (record["seq"], record["events"]) == (self.chunks + 1, self.events)

    def already_seen(self, record: Record) -> bool:
        """Return True if the follower has received the message before."""
        mine = self.events if "chunks" in record else self.chunks
        return record.get("generation") == self.generation and int(record["seq"]) <= mine

    def reset(self, generation: str) -> None:
        """Move to the start of this generation."""
        self.generation, self.events, self.chunks = generation, 0, 0

    def advance(self, record: Record) -> Record:
        """Move behind the message, and return it. Chunks before an event that follow no more are trimmed."""
        if "chunks" in record:
            self.events, self.chunks = record["seq"], max(self.chunks, record["chunks"])
        else:
            self.chunks = max(self.chunks, record["seq"])
        return record


def read_record(message: str | bytes) -> Record | None:
    """Return the message's JSON object, or None if it is none: a channel is open to writers that the logs are not."""
    try:
        record = json.loads(message)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
