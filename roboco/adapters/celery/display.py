"""What Celery's tools show of a message, such as Flower: an id that is found by the task's, and no word of anybody.

The id of a Celery task begins with the task's and a "/", which no task id holds. A search for `order-17/` thus finds
everything of task order-17 and nothing of others, and sorted by id it stands in the order of the history. The same
attempt announced again bears the same id, so that it is one row.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from roboco.errors import RobocoError
from roboco.ports import CallOrder, ListOrder, TurnOrder

NAMING: Final = (
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
"""The arguments from outside that name something; all others may hold what somebody says."""
MOST: Final = 200
"""The longest text of an error that is shown."""
SHORT: Final = 11
"""How many characters of a call's id stand in that of its Celery task: enough for the calls of one step."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@/+-]{0,127}")
_FOUND: Final = re.compile(r"\(found .*", re.DOTALL)
_QUOTED: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_PASSWORD: Final = re.compile(r"(?<=://)[^\s/@]*@")
_OF_MACHINE: Final = ("celery.", "billiard.", "redis.", "kombu.")
"""Whose errors speak of processes and servers alone."""


def turn_id(order: TurnOrder) -> str:
    """The id of the Celery task that makes this attempt at the turn."""
    return f"{order.task_id}/{order.seq:04}/turn/{order.attempt}"


def call_task_id(order: CallOrder) -> str:
    """The id of the Celery task that makes this attempt at the call, by the position at which its result will stand."""
    return f"{order.task_id}/{order.seq + 1:04}/tool/{order.call_id[:SHORT]}/{order.attempt}"


def look_id(task_id: str, at: float) -> str:
    """The id of the Celery task that looks at the task, as announced at this time."""
    return f"{task_id}/advance/{at * 1000:.0f}"


def listing_id(order: ListOrder, at: float) -> str:
    """The id of the Celery task that lists the tools of a server, as announced at this time."""
    return f"{order.task_id}/mcp/{order.server}/{at * 1000:.0f}"


def notify_id(task_id: str, at: float) -> str:
    """The id of the Celery task that tells what has become of the task, as announced at this time."""
    return f"{task_id}/notify/{at * 1000:.0f}"


def of_work(who: str, order: TurnOrder | CallOrder) -> str:
    """Who is to do what, for people."""
    again = f", attempt {order.attempt}" if order.attempt > 1 else ""
    return f"{who}, {order.task_id}, step {order.seq}{again}"


def of_outside(arguments: Mapping[str, Any], origin: object) -> tuple[str, str]:
    """What is shown of arguments from outside: of which task and who sent them, and what they name."""
    names = {name: arguments[name] for name in NAMING if name in arguments and _is_name(arguments[name])}
    hidden = sorted(str(name) for name in arguments if name not in names and _is_name(str(name)))
    whose = str(names.get("task_id", "a new task"))
    sender = f", from {origin}" if _is_name(origin) else ""
    return whose + sender, repr(names | dict.fromkeys(hidden, "(not shown)"))


def of_error(error: BaseException) -> str:
    """The error without what it quotes. Of one that is not foreseen only the kind: its text may hold anything."""
    kind = type(error)
    if not (isinstance(error, RobocoError) or kind.__module__.startswith(_OF_MACHINE)):
        return f"{kind.__name__}: see the worker's log"
    text = _QUOTED.sub(_name_or_dots, _FOUND.sub("(found ...)", str(error)))
    text = _PASSWORD.sub("***@", text)[:MOST]
    return text if text.startswith(kind.__name__) else f"{kind.__name__}: {text}"


def frames_of(traceback: object) -> str:
    """The lines of a traceback that say where; the others may hold what the error quotes."""
    lines = str(traceback or "").splitlines()
    return "\n".join(line for line in lines if line.startswith('  File "'))


def _is_name(value: object) -> bool:
    return isinstance(value, bool | int) or (isinstance(value, str) and _NAME.fullmatch(value) is not None)


def _name_or_dots(found: re.Match[str]) -> str:
    return found[0] if _NAME.fullmatch(found[0][1:-1]) else "..."
