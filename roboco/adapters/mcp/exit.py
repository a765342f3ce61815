"""Exit: how the process of an MCP server has ended, and what it has written to stderr last."""

import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass

from roboco.adapters.mcp.errors import without
from roboco.domain.url import without_credentials

MOST_LINES, LONGEST_LINE = 20, 300
"""How many of the last lines are logged, and how many characters of each."""
_BY_SIGNAL = 128
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


@dataclass
class Exit:
    """What the leash has reported.

    `status` is the exit status, negative for a signal. It is None for a server at an address, and for a server that did
    not end the conversation: it ends or is killed because the worker does.
    """

    status: int | None = None
    stderr: bytes = b""

    def read(self, report: bytes, unasked: bool) -> None:
        """Take over the leash's report: a line with the status, which counts if `unasked`, and the end of stderr."""
        line, _, self.stderr = report.partition(b"\n")
        self.status = int(line) if line and unasked else None

    @property
    def told(self) -> str:
        """The exit status, for messages; "" if there is none."""
        if self.status is None:
            return ""
        logged = "; the log has the end of its stderr" if self.stderr.strip() else ""
        return f" (its process ended {_how(self.status)}{logged})"

    def lines(self, secrets: Iterable[str]) -> list[str]:
        """The last lines of stderr for a log: printable, bounded, and with every secret covered before they are cut."""
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
