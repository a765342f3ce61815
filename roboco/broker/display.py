"""display: arguments and errors of messages as Flower and the log show them, without any content of users."""

import re
from collections.abc import Mapping
from typing import Any, Final

from roboco.errors import RobocoError

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
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@/+-]{0,127}")
_FOUND_VALUE: Final = re.compile(r"\(found .*", re.DOTALL)
_QUOTED: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_PASSWORD: Final = re.compile(r"(?<=://)[^\s/@]*@")
_SAFE_ERROR_MODULES: Final = ("celery.", "billiard.", "redis.", "kombu.")
"""Packages whose errors name only processes and servers."""


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
