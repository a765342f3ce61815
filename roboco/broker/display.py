"""display: the ids and arguments of messages as Flower shows them, without any content of users.

The id of a Celery task starts with the task's id and a "/", which no task id contains. A search for `order-17/` finds
everything of task order-17 and nothing of others, sorted by id in the order of the history. An attempt that is
dispatched again has the same id, so that it is one row.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from roboco.errors import RobocoError
from roboco.ports.assignment import ListingRequest, ToolAssignment, TurnAssignment

NAME_ARGUMENTS: Final = (
    "task_id",
    "tenant",
    "source",
    "team",
    "priority",
    "agent",
    "model",
    "call_id",
    "item_id",
    "seq",
    "status",
    "happened",
)
"""The arguments from outside that are names. All others may hold content of users."""
MAX_ERROR_CHARS: Final = 200
"""Characters of the text of an error at most."""
CALL_ID_CHARS: Final = 11
"""Characters of a call's id in the id of its Celery task: they distinguish the calls of one step."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@/+-]{0,127}")
_FOUND_VALUE: Final = re.compile(r"\(found .*", re.DOTALL)
_QUOTED: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_PASSWORD: Final = re.compile(r"(?<=://)[^\s/@]*@")
_SAFE_ERROR_MODULES: Final = ("celery.", "billiard.", "redis.", "kombu.")
"""Packages whose errors name only processes and servers."""


def turn_message_id(order: TurnAssignment) -> str:
    """Return the id of the Celery task that runs this attempt at the turn."""
    return f"{order.task_id}/{order.seq:04}/turn/{order.attempt}"


def call_message_id(order: ToolAssignment) -> str:
    """Return the id of the Celery task that runs this attempt at the call, with the position of its result."""
    return f"{order.task_id}/{order.seq + 1:04}/tool/{order.call_id[:CALL_ID_CHARS]}/{order.attempt}"


def advance_message_id(task_id: str, at: float) -> str:
    """Return the id of the coordinator pass over the task that is dispatched at this time."""
    return f"{task_id}/advance/{at * 1000:.0f}"


def listing_message_id(order: ListingRequest, at: float) -> str:
    """Return the id of the listing of a server's tools that is dispatched at this time."""
    return f"{order.task_id}/mcp/{order.server}/{at * 1000:.0f}"


def notify_message_id(task_id: str, at: float) -> str:
    """Return the id of the delivery of the task's notifications that is dispatched at this time."""
    return f"{task_id}/notify/{at * 1000:.0f}"


def describe_work(name: str, order: TurnAssignment | ToolAssignment) -> str:
    """Return the arguments of a turn or call for display: agent or tool, task and step."""
    again = f", attempt {order.attempt}" if order.attempt > 1 else ""
    return f"{name}, {order.task_id}, step {order.seq}{again}"


def redact_arguments(arguments: Mapping[str, Any], origin: object) -> tuple[str, str]:
    """Return the arguments of a message from outside for display: its task and sender, and its names."""
    names = {name: arguments[name] for name in NAME_ARGUMENTS if name in arguments and _is_name(arguments[name])}
    hidden = sorted(str(name) for name in arguments if name not in names and _is_name(str(name)))
    whose = str(names.get("task_id", "a new task"))
    sender = f", from {origin}" if _is_name(origin) else ""
    return whose + sender, repr(names | dict.fromkeys(hidden, "(not shown)"))


def redact_error(error: BaseException) -> str:
    """Return the error without its quotations. Of an unexpected error return the type: its text may hold anything."""
    kind = type(error)
    if not (isinstance(error, RobocoError) or kind.__module__.startswith(_SAFE_ERROR_MODULES)):
        return f"{kind.__name__}: see the worker's log"
    text = _QUOTED.sub(_keep_name, _FOUND_VALUE.sub("(found ...)", str(error)))
    text = _PASSWORD.sub("***@", text)[:MAX_ERROR_CHARS]
    return text if text.startswith(kind.__name__) else f"{kind.__name__}: {text}"


def redact_traceback(traceback: object) -> str:
    """Return the lines of a traceback with files and functions. The others may hold quotations of the error."""
    lines = str(traceback or "").splitlines()
    return "\n".join(line for line in lines if line.startswith('  File "'))


def _is_name(value: object) -> bool:
    return isinstance(value, bool | int) or (isinstance(value, str) and _NAME.fullmatch(value) is not None)


def _keep_name(found: re.Match[str]) -> str:
    return found[0] if _NAME.fullmatch(found[0][1:-1]) else "..."
