"""The log context: the fields that name the current work in every log line.

It is a context variable, so it follows the work to the loop that runs model streams, and to threads that run in a copy
of the context. Each piece of work has one mapping object, so fields that are added later appear in all these places.
"""

from contextvars import ContextVar

LogFields = dict[str, str | int]

LOG_CONTEXT: ContextVar[LogFields | None] = ContextVar("roboco_log_context", default=None)
"""The fields `task_id`, `step`, `agent`, `tool_call_id`, as far as they apply."""

LOGGED_ATTRIBUTES = {"agent": "agent", "tool": "tool", "task_id": "task_id", "seq": "step", "call_id": "tool_call_id"}
"""The attributes of an operation that log lines contain, with their names there."""


def log_fields(attributes: dict[str, str | int | float | None]) -> LogFields:
    """Return the attributes that log lines contain, under their names there."""
    return {
        LOGGED_ATTRIBUTES[name]: value
        for name, value in attributes.items()
        if name in LOGGED_ATTRIBUTES and isinstance(value, str | int) and value != ""
    }
