"""Person: who sits at the terminal, and what they say to a team when they are asked or press Ctrl-C."""

import json
import sys
import termios
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import indent
from typing import Any, Protocol

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
_SHORT = 100
"""Arguments of at most so many characters stand on one line."""


class Spoken(Protocol):
    """What a person says something to."""

    def send(self, message: str) -> object:
        """Add a message of the user."""

    def interrupt(self, message: str) -> object:
        """End what is being done, and go on with the message."""

    def approve(self, call_id: str, args: dict[str, Any] | None = None) -> None:
        """Let a call run, with other arguments if these are given."""

    def deny(self, call_id: str, reason: str = "") -> None:
        """Do not let a call run."""


class Open(Protocol):
    """The open calls of a waiting task."""

    def unapproved(self) -> list[ToolCall]:
        """The calls that need approval, and of which nobody has said anything yet."""

    def changes(self) -> dict[str, ToolDifference]:
        """How the tools of open calls have changed, by the ids of the calls."""

    def unknown(self) -> list[ToolCall]:
        """The calls of which a person must say whether they had their effect."""


@dataclass(frozen=True)
class Verdict:
    """A person's word on a call: it may run, with other `args` if they are given, or it may not, and why."""

    approved: bool
    args: dict[str, Any] | None = None
    reason: str = ""


class Person:
    """Is asked on the screen, where `view` shows the task. Ctrl-C at a question raises Interrupted."""

    def __init__(self, task: Spoken, waits: Open, screen: Screen, view: LiveView) -> None:
        self._task = task
        self._waits = waits
        self._screen = screen
        self._view = view

    @property
    def interjects(self) -> bool:
        """Whether Ctrl-C asks for a message."""
        return self._screen.terminal

    def answer(self, status: TaskStatus) -> bool:
        """Ask for what a task in this status waits for: whether it goes on."""
        match status:
            case TaskStatus.USER_TURN:
                return self._say(_REPLY, self._task.send)
            case TaskStatus.APPROVAL:
                return self._judge()
            case _:
                return False

    def interject(self) -> bool:
        """Ask for a message, and interrupt the team with it: whether that was done."""
        try:
            return self._say(_INTERJECTION, self._task.interrupt)
        except TransientError as error:
            self._screen.paragraph((f"{error}; Ctrl-C asks again", "red"))
            return False

    def _say(self, question: str, say: Callable[[str], object]) -> bool:
        """Whether there was a message."""
        self._screen.blank()
        self._screen.paragraph((question, "dim"))
        message = "\n".join(self._read(True))
        if not message.strip():
            return False
        self._view.typed(message)
        self._do(lambda: say(message))
        return True

    def _judge(self) -> bool:
        """Ask about each call; without any, what was said of them may just not have been looked at."""
        calls = self._waits.unapproved()
        changes = self._waits.changes() if calls else {}
        for call in calls:
            verdict = self._verdict(call, changes.get(call.id))
            if verdict is None:
                return False
            self._give(call, verdict)
        return bool(calls) or not self._waits.unknown()

    def _verdict(self, call: ToolCall, change: ToolDifference | None) -> Verdict | None:
        """What the person says of the call; None if they say nothing."""
        if sys.stdin.isatty():
            termios.tcflush(sys.stdin, termios.TCIFLUSH)  # what was typed before the question is no answer to it
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
        """Do it; that it comes too late is told and changes nothing."""
        try:
            act()
        except UsageError as error:
            self._screen.paragraph((str(error), "red"))

    def _read(self, several: bool) -> list[str]:
        """The lines that are typed before an empty one, or the first of them."""
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
    """The verdict that was typed, or what is wrong with it."""
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
    """All of the arguments, since they are what is approved."""
    line = escaped(json.dumps(args, ensure_ascii=False))
    return line if len(line) <= _SHORT else escaped(json.dumps(args, ensure_ascii=False, indent=2))
