"""audit: a JSON line for each control, approval, change of limits, and act of an operator.

    control ─► audit file opens? ─► control ─► line: accepted, refused or failed
                └── no: nothing is done

The line goes to the logger `roboco.audit`, and to the file of ROBOCO_AUDIT_LOG, which only grows. It names the caller,
and holds no message, result or argument. Each process that accepts controls writes its own lines: a client, a gateway,
or a coordinator for messages over Celery. The gateway logs a line for each request itself; then the line of the control
goes to the file alone.
"""

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from roboco.domain.ids import tenant_of
from roboco.domain.schema import MAX_CALLER_CHARS
from roboco.errors import Overloaded, RobocoError, UsageError

IN_REQUEST: Final[ContextVar[str]] = ContextVar("roboco_request", default="")
"""The id of the HTTP request of this control, or ""."""
MAX_ID_CHARS: Final = 200
_audit = logging.getLogger("roboco.audit")
Way = Literal["client", "celery", "http"]


@dataclass
class Act:
    """An act of a caller."""

    action: str
    """Its verb, such as `stop` or `set_limits`."""
    by: str | None
    """The identity of the caller, or None if it has none."""
    task_id: str | None = None
    way: Way = "client"
    details: dict[str, Any] = field(default_factory=dict)
    """Further facts, such as the id of a call or of a dead letter."""


@contextmanager
def audited(act: Act, path: Path | None) -> Iterator[None]:
    """Write the line of an act after it. Raise UsageError, and prevent the act, if the audit file cannot be opened."""
    file = None if path is None else _open(path)
    try:
        try:
            yield
        except BaseException as error:
            refused = isinstance(error, UsageError | Overloaded)
            _write(act, "refused" if refused else "failed", error, file)
            raise
        _write(act, "accepted", None, file)
    finally:
        if file is not None:
            os.close(file)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(
            f"ROBOCO_AUDIT_LOG: {path} cannot be opened ({error.strerror}); nothing was done. Let this process write "
            "to it, or unset the variable"
        ) from error


def _write(act: Act, outcome: str, error: BaseException | None, file: int | None) -> None:
    request = IN_REQUEST.get()
    line = json.dumps(
        {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "action": act.action,
            "by": _bounded(act.by, MAX_CALLER_CHARS),
            "tenant": None if act.task_id is None else tenant_of(act.task_id) or None,
            "task": _bounded(act.task_id, MAX_ID_CHARS),
            "way": "http" if request else act.way,
            **({"request": request} if request else {}),
            **act.details,
            "outcome": outcome,
            **({} if error is None else {"error": error.code if isinstance(error, RobocoError) else "internal"}),
        }
    )
    if not request:
        _audit.info(line)
    if file is not None:
        try:
            os.write(file, f"{line}\n".encode())  # one write: lines of several processes do not mix
        except OSError:
            _audit.exception("a line of the audit log is not in its file: %s", line)


def _bounded(value: object, most: int) -> str | None:
    return value[:most] if isinstance(value, str) else None
