"""CallFailure: the place at which a tool raised an exception.

It is for operators: no model and no follower receives it.
"""

from datetime import datetime

from roboco.domain.schema import RecordModel


class CallFailure(RecordModel):
    """The exception of a tool call."""

    call_id: str
    tool_name: str
    attempt: int
    time: datetime
    lines: tuple[str, ...]
    """The last frames of the exception and of its causes, printable and bounded."""
