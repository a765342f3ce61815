"""CallFailure: where a tool raised an exception. It is for operators: no model and no follower gets it."""

from datetime import datetime

from roboco.domain.schema import Recorded


class CallFailure(Recorded):
    """The last frames of the exception of a tool call, and of its causes. `lines` are printable and bounded."""

    call_id: str
    tool_name: str
    attempt: int
    time: datetime
    lines: tuple[str, ...]
