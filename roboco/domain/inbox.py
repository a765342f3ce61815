"""What arrives for a task from outside and is not yet a step."""

from datetime import datetime
from typing import Annotated, Any, Literal

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


class Resolution(_Item):
    """A person's word on a tool call whose outcome nobody knows: whether it had its effect, and with what result.

    `at_seq` is the position of the step that called.
    """

    kind: Literal["resolution"] = "resolution"
    call_id: str
    at_seq: int
    happened: bool
    result: Any = None


Item = Message | Stop | Resolution
_ADAPTER: TypeAdapter[Item] = TypeAdapter(Annotated[Item, Field(discriminator="kind")])


def read_item(data: bytes | str) -> Item:
    """The item of one stored file."""
    return _ADAPTER.validate_json(data)
