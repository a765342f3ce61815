"""Person: the user at the terminal, with answers to questions of the team, and messages after Ctrl-C."""

import json
import sys
import termios
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import indent
from typing import Any, Final, Protocol

from roboco.cli.interactive.live_view import LiveView
from roboco.cli.interactive.read_line import typed_line
from roboco.cli.terminal.sanitize import escaped
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.signals import Interrupted, ctrl_c_raised
from roboco.cli.terminal.tool_change import show_change
from roboco.domain.history.part import ToolCall
from roboco.domain.status import TaskStatus
from roboco.domain.team.tool_difference import ToolDifference
from roboco.errors import TransientError, UsageError

_REPLY = "your answer, ended by an empty line (empty: leave; Ctrl-C: stop the task)"
_INTERJECTION = "your message, ended by an empty line (empty: continue; Ctrl-C: stop the task)"
_VERDICT = "may it run? y, n [REASON], or {other arguments} (empty: leave; Ctrl-C: stop)"
_CHANGE = "approve the change? y, n [REASON]; this call does not run (empty: leave; Ctrl-C: stop)"
MAX_LINE_CHARS: Final = 100
"""Characters of arguments that are printed on one line."""


class Spoken(Protocol):
    """The controls of a task that a person uses."""

    def send(self, message: str) -> object:
        """Add a message of the user."""

    def interrupt(self, message: str) -> object:
        """Cancel the current step, and continue with the message."""

    def approve(self, call_id: str, args: dict[str, Any] | None = None) -> None:
        """Approve a call, with other arguments if these are given."""

    def deny(self, call_id: str, reason: str = "") -> None:
        """Deny a call."""


class Open(Protocol):
    """The open calls of a waiting task."""

    def unapproved(self) -> list[ToolCall]:
        """Return the calls that a person has to approve or deny."""

    def changes(self) -> dict[str, ToolDifference]:
        """Return how the tools of open calls have changed, by the ids of the calls."""

    def unknown(self) -> list[ToolCall]:
        """Return the calls with an unknown outcome."""


@dataclass(frozen=True)
class Verdict:
    """The decision of a person on a call."""

    approved: bool
    args: dict[str, Any] | None = None
    """Arguments that replace those of an approved call, or None."""
    reason: str = ""
    """Why the call is denied."""


class Person:
    """Asks its questions on the screen, on which `view` shows the task. Ctrl-C at a question raises Interrupted."""

    def __init__(self, task: Spoken, waits: Open, screen: Screen, view: LiveView) -> None:
        self._task = task
        self._waits = waits
        self._screen = screen
        self._view = view

    @property
    def interjects(self) -> bool:
        """True if Ctrl-C asks for a message."""
        return self._screen.terminal

    def answer(self, status: TaskStatus) -> bool:
        """Ask for the input that a task in this status waits for. Return True if the task continues."""
        match status:
            case TaskStatus.USER_TURN:
                return self._say(_REPLY, self._task.send)
            case TaskStatus.APPROVAL:
                return self._judge()
            case _:
                return False

    def interject(self) -> bool:
        """Ask for a message, and interrupt the task with it. Return True if there was a message."""
        try:
            return self._say(_INTERJECTION, self._task.interrupt)
        except TransientError as error:
            self._screen.paragraph((f"{error}; Ctrl-C asks again", "red"))
            return False

    def _say(self, question: str, say: Callable[[str], object]) -> bool:
        """Ask for a message, and send it. Return True if there was one."""
        self._screen.blank()
        self._screen.paragraph((question, "dim"))
        message = "\n".join(self._read(True))
        if not message.strip():
            return False
        self._view.typed(message)
        self._do(lambda: say(message))
        return True

    def _judge(self) -> bool:
        """Ask about each call that needs approval. Return True if the task continues.

        If no call needs approval, a coordinator may not have applied the decisions yet: the task continues then.
        """
        calls = self._waits.unapproved()
        changes = self._waits.changes() if calls else {}
        for call in calls:
            verdict = self._verdict(call, changes.get(call.id))
            if verdict is None:
                return False
            self._give(call, verdict)
        return bool(calls) or not self._waits.unknown()

    def _verdict(self, call: ToolCall, change: ToolDifference | None) -> Verdict | None:
        """Ask about a call. Return the decision, or None if the user gives none."""
        if sys.stdin.isatty():
            termios.tcflush(sys.stdin, termios.TCIFLUSH)  # drop keys that were typed before the question
        self._screen.blank()
        self._screen.line(("── ", "yellow"), (call.tool_name, "bold yellow"), (" needs your approval", "dim"))
        self._screen.line(indent(_shown(call.args), "   "))
        if change is not None:
            show_change(self._screen, change)
        while True:
            self._screen.paragraph((_VERDICT if change is None else _CHANGE, "dim"))
            lines = self._read(False)
            if not lines:
                return None
            verdict = read_verdict(lines[0])
            if isinstance(verdict, Verdict):
                return verdict
            self._screen.paragraph((verdict, "red"))

    def _give(self, call: ToolCall, verdict: Verdict) -> None:
        if verdict.approved:
            self._do(lambda: self._task.approve(call.id, verdict.args))
        else:
            self._do(lambda: self._task.deny(call.id, verdict.reason))

    def _do(self, act: Callable[[], object]) -> None:
        """Send a control. If it is too late for it, print the error and continue."""
        try:
            act()
        except UsageError as error:
            self._screen.paragraph((str(error), "red"))

    def _read(self, several: bool) -> list[str]:
        """Return the lines before an empty one; without `several`, the first line alone."""
        lines: list[str] = []
        self._view.aside()
        try:
            with ctrl_c_raised():
                while line := typed_line("> "):
                    lines.append(line)
                    if not several:
                        break
        except EOFError:
            self._screen.blank()
        except Interrupted:
            self._screen.blank()
            raise
        return lines


def read_verdict(line: str) -> Verdict | str:
    """Return the decision that was typed, or an error message."""
    word, _, rest = line.strip().partition(" ")
    if word.lower() in ("y", "yes") and not rest:
        return Verdict(True)
    if word.lower() in ("n", "no"):
        return Verdict(False, reason=rest.strip())
    if not word.startswith("{"):
        return "say y, n, n REASON, or a JSON object"
    try:
        args = json.loads(line)
    except ValueError as error:
        return f"this is no JSON: {error}"
    return Verdict(True, args) if isinstance(args, dict) else "this is no JSON object"


def _shown(args: dict[str, Any]) -> str:
    """Return the complete arguments: the user approves exactly these."""
    line = escaped(json.dumps(args, ensure_ascii=False))
    return line if len(line) <= MAX_LINE_CHARS else escaped(json.dumps(args, ensure_ascii=False, indent=2))
