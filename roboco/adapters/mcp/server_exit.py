"""The exit status of an MCP server's process, and the end of its stderr."""

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass

from roboco.domain.url import strip_credentials

MAX_LOGGED_LINES, MAX_LINE_CHARS = 20, 300
"""Maximum number of logged lines, counted from the end, and of characters of each."""
_SIGNAL_STATUS_BASE = 128
_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


@dataclass
class ServerExit:
    """The report of the watchdog.

    `status` is the exit status, negative for a signal. It is None for a server at an address, and for a server that did
    not end by itself: the worker ends or kills it.
    """

    status: int | None = None
    stderr: bytes = b""
    fault: str = ""
    """Why the watchdog ended the server, or ""."""

    def parse_report(self, report: bytes, unasked: bool) -> None:
        """Store the watchdog's report: a line with the status, used only if `unasked`, or a fault, then the stderr."""
        line, _, self.stderr = report.partition(b"\n")
        try:
            self.status = int(line) if line and unasked else None
        except ValueError:
            self.fault = line.decode(errors="replace")

    @property
    def message(self) -> str:
        """Return the exit status or the fault for messages, or "" if there is none."""
        if self.fault:
            return f" (it was ended: {self.fault})"
        if self.status is None:
            return ""
        logged = "; the log has the end of its stderr" if self.stderr.strip() else ""
        return f" (its process ended {_describe_status(self.status)}{logged})"

    def log_lines(self, mask: Callable[[str], str]) -> list[str]:
        """Return the last lines of stderr for a log: printable, truncated, with secrets masked before truncation."""
        text = strip_credentials(mask(self.stderr.decode(errors="replace")))
        lines = [_printable(line) for line in re.split(r"[\r\n]+", text) if line.strip()]
        return lines[-MAX_LOGGED_LINES:]


def _describe_status(status: int) -> str:
    number = -status if status < 0 else status - _SIGNAL_STATUS_BASE
    name = signal.Signals(number).name if number in {*signal.Signals} else ""
    if status < 0:
        return f"because of signal {name or number}"
    return f"with exit status {status}" + (f", as after signal {name}" if name else "")


def _printable(line: str) -> str:
    plain = _ESCAPE_SEQUENCE.sub("", line).replace("\t", " ")
    plain = "".join(sign if sign.isprintable() else "?" for sign in plain)
    return plain if len(plain) <= MAX_LINE_CHARS else f"{plain[:MAX_LINE_CHARS]}..."
