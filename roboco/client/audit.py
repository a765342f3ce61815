"""audit: JSON lines for each control, approval, change of limits, and act of an operator.

    control ─► audit file opens ─► line in it: begun ─► control ─► line: accepted, refused or failed
                    └── fails ──────────└── fails: nothing is done

The lines go to the file of ROBOCO_AUDIT_LOG, which only grows, and those with an outcome also to the logger
`roboco.audit`. They name the caller, and hold no message, result or argument. Both lines of an act have the same `act`.
If the process dies before the second line, the first one remains: whether the act was done is in the history of its
task, or in the state of the deployment. Each process that accepts controls writes its own lines: a client, a gateway,
or a coordinator for messages over Celery. The gateway logs a line for each request itself; then the lines of the
control go to the file alone.
"""

import errno
import json
import logging
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
    """Write a line before an act, and one after it. Raise UsageError, and prevent the act, if the first one fails."""
    file = None if path is None else _open(path)
    act_id = secrets.token_hex(8)
    try:
        if file is not None and path is not None:
            _begin(file, path, _line(act, act_id, "begun"))
        try:
            yield
        except BaseException as error:
            refused = isinstance(error, UsageError | Overloaded)
            code = error.code if isinstance(error, RobocoError) else "internal"
            _end(_line(act, act_id, "refused" if refused else "failed", error=code), file)
            raise
        _end(_line(act, act_id, "accepted"), file)
    finally:
        if file is not None:
            os.close(file)


def _open(path: Path) -> int:
    """Open the file without waiting for a reader, as a pipe would demand. Raise UsageError if it is none.

    It is opened for reading too, if possible, but not a pipe: a process that holds its reading end does not notice that
    it has no other reader.
    """
    options = os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        reads = not path.exists() or (path.is_file() and os.access(path, os.R_OK))
        file = os.open(path, options | (os.O_RDWR if reads else os.O_WRONLY), 0o600)
    except OSError as error:
        raise _refusal(path, f"cannot be opened ({error.strerror})") from error
    if not _is_file_or_output(file):
        os.close(file)
        raise _refusal(path, "is neither a file nor the output of this process")
    os.set_blocking(file, True)
    return file


def _is_file_or_output(file: int) -> bool:
    found = os.fstat(file)
    return stat.S_ISREG(found.st_mode) or any(os.path.samestat(found, one) for one in _outputs())


def _outputs() -> Iterator[os.stat_result]:
    """Yield standard output and standard error, if they are open."""
    for descriptor in (1, 2):
        with suppress(OSError):
            yield os.fstat(descriptor)


def _refusal(path: Path, problem: str) -> UsageError:
    return UsageError(
        f"ROBOCO_AUDIT_LOG: {path} {problem}; nothing was done. Let this process write to it, or unset the variable"
    )


def _begin(file: int, path: Path, line: str) -> None:
    """Write the first line of an act. Raise UsageError if that fails."""
    try:
        _append(file, line)
    except OSError as error:
        raise _refusal(path, f"cannot be written ({error.strerror})") from error


def _end(line: str, file: int | None) -> None:
    """Write the line with the outcome."""
    if not IN_REQUEST.get():
        _audit.info(line)
    if file is not None:
        try:
            _append(file, line)
        except OSError:
            _audit.exception("a line of the audit log is not in its file: %s", line)


def _append(file: int, line: str) -> None:
    data = f"{line}\n".encode()
    if _ends_in_part(file):
        data = b"\n" + data
    if os.write(file, data) < len(data):  # one write: lines of several processes do not mix
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _ends_in_part(file: int) -> bool:
    """Return True if the last line was cut off, by a full disk, in a file that this process may read."""
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or not found.st_size:
        return False
    with suppress(OSError):
        return os.pread(file, 1, found.st_size - 1) != b"\n"
    return False


def _line(act: Act, act_id: str, outcome: str, **facts: str) -> str:
    """Return the line of an act as of now: a new key, for example, gets its id during the act."""
    request = IN_REQUEST.get()
    return json.dumps(
        {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "act": act_id,
            "action": act.action,
            "by": _bounded(act.by, MAX_CALLER_CHARS),
            "tenant": None if act.task_id is None else tenant_of(act.task_id) or None,
            "task": _bounded(act.task_id, MAX_ID_CHARS),
            "way": "http" if request else act.way,
            **({"request": request} if request else {}),
            **act.details,
            "outcome": outcome,
            **facts,
        }
    )


def _bounded(value: object, most: int) -> str | None:
    return value[:most] if isinstance(value, str) else None
