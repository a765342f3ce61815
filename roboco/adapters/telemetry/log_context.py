"""What the work that is being done is called: every log line that is written meanwhile says so.

A context variable, so that it follows the work to the loop that runs model streams, and to threads that take a copy
of the context along. The mapping is one object for one piece of work: what comes to light later shows everywhere.
"""

from contextvars import ContextVar

Named = dict[str, str | int]

NAMED: ContextVar[Named | None] = ContextVar("roboco_named", default=None)
"""`task_id`, `step`, `agent`, `tool_call_id`, as far as they apply."""

LOGGED = {"agent": "agent", "tool": "tool", "task_id": "task_id", "seq": "step", "call_id": "tool_call_id"}
"""The facts that log lines name, and how they call them."""


def named(facts: dict[str, str | int | float | None]) -> Named:
    """Those of the facts that log lines name."""
    return {
        LOGGED[name]: value
        for name, value in facts.items()
        if name in LOGGED and isinstance(value, str | int) and value != ""
    }
