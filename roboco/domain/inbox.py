"""What arrives for a task from outside and is not yet a step."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from roboco.domain.part import Recorded


class _Item(Recorded):
    item_id: str
    created_at: datetime
    taken_at_seq: int | None = None


class Message(_Item):
    """A message of the user; `agent` may name who answers it."""

    kind: Literal["message"] = "message"
    text: str
    agent: str | None = None


class Stop(_Item):
    """The user's wish that the task ends now."""

    kind: Literal["stop"] = "stop"
    reason: str = "stopped by the user"


InboxItem = Annotated[Message | Stop, Field(discriminator="kind")]
_ADAPTER: TypeAdapter[Message | Stop] = TypeAdapter(InboxItem)


def read_item(data: bytes | str) -> Message | Stop:
    """The item of one stored file."""
    return _ADAPTER.validate_json(data)
