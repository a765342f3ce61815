"""The exit status of an MCP server's process, and the end of its stderr."""

import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass

from roboco.adapters.mcp.errors import without
from roboco.domain.url import without_credentials

MOST_LINES, LONGEST_LINE = 20, 300
"""Maximum number of logged lines, counted from the end, and of characters of each."""
_BY_SIGNAL = 128
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


@dataclass
class Exit:
    """The report of the watchdog.

    `status` is the exit status, negative for a signal. It is None for a server at an address, and for a server that did
    not end by itself: the worker ends or kills it.
    """

    status: int | None = None
    stderr: bytes = b""

    def read(self, report: bytes, unasked: bool) -> None:
        """Store the watchdog's report: a line with the status, used only if `unasked`, then the end of stderr."""
        line, _, self.stderr = report.partition(b"\n")
        self.status = int(line) if line and unasked else None

    @property
    def told(self) -> str:
        """Return the exit status for messages, or "" if there is none."""
        if self.status is None:
            return ""
        logged = "; the log has the end of its stderr" if self.stderr.strip() else ""
        return f" (its process ended {_how(self.status)}{logged})"

    def lines(self, secrets: Iterable[str]) -> list[str]:
        """Return the last lines of stderr for a log: printable, truncated, with secrets masked before truncation."""
        text = without_credentials(without(secrets, self.stderr.decode(errors="replace")))
        lines = [_printable(line) for line in re.split(r"[\r\n]+", text) if line.strip()]
        return lines[-MOST_LINES:]


def _how(status: int) -> str:
    number = -status if status < 0 else status - _BY_SIGNAL
    name = _signal(number)
    if status < 0:
        return f"because of signal {name or number}"
    return f"with exit status {status}" + (f", as after signal {name}" if name else "")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def _printable(line: str) -> str:
    plain = "".join(sign if sign.isprintable() else " " if sign == "\t" else "?" for sign in _SEQUENCE.sub("", line))
    return plain if len(plain) <= LONGEST_LINE else f"{plain[:LONGEST_LINE]}..."
