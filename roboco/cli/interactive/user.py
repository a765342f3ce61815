"""Person: the user at the terminal, with answers to questions of the team, and messages after Ctrl-C."""

import json
import os
import select
import sys
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import indent
from typing import Any, Final

from roboco.cli.interactive.live_view import LiveView
from roboco.cli.terminal.key_echo import drop_typed_keys, key_echo
from roboco.cli.terminal.sanitize import escape_invisible
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.signals import Interrupted, raise_on_ctrl_c
from roboco.cli.terminal.tool_change import show_change
from roboco.client.pending_actions import PendingActions
from roboco.client.task import Task
from roboco.domain.history.part import ToolCall
from roboco.domain.status import TaskStatus
from roboco.domain.team.tool_listing import ToolDifference
from roboco.errors import TransientError, UsageError

_PASTE_SECONDS: Final = 0.05
"""Seconds within which the next line of a pasted text arrives."""
_SELECT_TIMEOUT: Final = 0.1
"""Seconds after which the loop notices a signal that arrived just before it started to wait."""


def read_line(prompt: str) -> str:
    """Return the next line that the user types, without its end. Raises EOFError at the end of the input.

    `input` would wait for the end of the line before it notices a signal. And Ctrl-C empties the terminal's line buffer
    between `select` and `read`: so reads from a terminal must not block.
    """
    sys.stdout.write(prompt)
    sys.stdout.flush()
    keys = sys.stdin.fileno()
    if not os.isatty(keys):
        return _read(lambda: sys.stdin.readline().encode(), keys)
    terminal = os.open(os.ttyname(keys), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        return _read(lambda: os.read(terminal, 4096), terminal)
    finally:
        os.close(terminal)


def input_waits() -> bool:
    """Return True if a further line has arrived already: it was pasted together with the one before."""
    return bool(select.select([sys.stdin.fileno()], [], [], _PASTE_SECONDS)[0])


def _read(read: Callable[[], bytes], keys: int) -> str:
    line = b""
    while not line.endswith(b"\n"):
        if not select.select([keys], [], [], _SELECT_TIMEOUT)[0]:
            continue
        try:
            piece = read()
        except BlockingIOError:
            continue
        if not piece:
            break
        line += piece
    if not line:
        raise EOFError
    return line.decode(errors="replace").removesuffix("\n")


_REPLY_PROMPT = "your answer (Enter sends it; empty: leave; Ctrl-C: stop the task)"
_INTERJECTION_PROMPT = "your message (Enter sends it; empty: continue; Ctrl-C: stop the task)"
_NO_INTERJECTION = "no message: the task continues"
_APPROVAL_PROMPT = "may it run? y, n [REASON], or {other arguments} (empty: leave; Ctrl-C: stop)"
_CHANGE_PROMPT = "approve the change? y, n [REASON]; this call does not run (empty: leave; Ctrl-C: stop)"
MAX_LINE_CHARS: Final = 100
"""Characters of arguments that are printed on one line."""


@dataclass(frozen=True)
class ApprovalInput:
    """The decision of a person on a call."""

    approved: bool
    args: dict[str, Any] | None = None
    """Arguments that replace those of an approved call, or None."""
    reason: str = ""
    """Why the call is denied."""


class TerminalUser:
    """Asks its questions on the screen, on which `view` shows the task. Ctrl-C at a question raises Interrupted."""

    def __init__(self, task: Task, pending: PendingActions, screen: Screen, view: LiveView) -> None:
        self._task = task
        self._pending = pending
        self._screen = screen
        self._view = view

    @property
    def interjects(self) -> bool:
        """True if Ctrl-C asks for a message."""
        return self._screen.is_terminal

    def answer(self, status: TaskStatus) -> bool:
        """Ask for the input that a task in this status waits for. Return True if the task continues."""
        match status:
            case TaskStatus.USER_TURN:
                return self._ask_message(_REPLY_PROMPT, self._answer)
            case TaskStatus.APPROVAL:
                return self._ask_approvals()
            case _:
                return False

    def interject(self) -> bool:
        """Ask for a message, and interrupt the task with it. Return True if there was a message."""
        try:
            interrupted = self._ask_message(_INTERJECTION_PROMPT, self._task.interrupt)
        except TransientError as error:
            self._screen.paragraph((f"{error}; Ctrl-C asks again", "red"))
            return False
        if not interrupted:
            self._screen.paragraph((_NO_INTERJECTION, "dim"))
        return interrupted

    def note_stop(self) -> None:
        """Note that the user stops the task: what agents wrote during the question is not shown."""
        self._view.note_stop()

    def _ask_message(self, question: str, say: Callable[[str], object]) -> bool:
        """Ask for a message, and send it. Return True if there was one."""
        drop_typed_keys()
        self._screen.blank()
        self._screen.paragraph((question, "dim"))
        message = "\n".join(self._read_lines(True))
        if not message.strip():
            return False
        self._send_control(lambda: say(message))
        return True

    def _answer(self, message: str) -> None:
        self._view.note_typed(message)
        self._task.send(message)

    def _ask_approvals(self) -> bool:
        """Ask about each call that needs approval. Return True if the task continues.

        If no call needs approval, a coordinator may not have applied the decisions yet: the task continues then.
        """
        calls = self._pending.unapproved()
        changes = self._pending.changes() if calls else {}
        for call in calls:
            verdict = self._ask_approval(call, changes.get(call.id))
            if verdict is None:
                return False
            self._send_decision(call, verdict)
        return bool(calls) or not self._pending.unknown()

    def _ask_approval(self, call: ToolCall, change: ToolDifference | None) -> ApprovalInput | None:
        """Ask about a call. Return the decision, or None if the user gives none."""
        drop_typed_keys()
        self._screen.blank()
        self._screen.line(("── ", "yellow"), (call.tool_name, "bold yellow"), (" needs your approval", "dim"))
        self._screen.line(indent(_arguments_text(call.args), "   "))
        if change is not None:
            show_change(self._screen, change)
        while True:
            self._screen.paragraph((_APPROVAL_PROMPT if change is None else _CHANGE_PROMPT, "dim"))
            lines = self._read_lines(False)
            if not lines:
                return None
            decision = parse_approval(lines[0])
            if isinstance(decision, ApprovalInput):
                return decision
            self._screen.paragraph((decision, "red"))

    def _send_decision(self, call: ToolCall, decision: ApprovalInput) -> None:
        if decision.approved:
            self._send_control(lambda: self._task.approve(call.id, decision.args))
        else:
            self._send_control(lambda: self._task.deny(call.id, decision.reason))

    def _send_control(self, act: Callable[[], object]) -> None:
        """Send a control. If it is too late for it, print the error and continue."""
        try:
            act()
        except UsageError as error:
            self._screen.paragraph((str(error), "red"))

    def _read_lines(self, several: bool) -> list[str]:
        """Return the line that is typed; with `several`, all lines that are pasted together."""
        lines: list[str] = []
        self._view.note_interjection()
        try:
            with key_echo(True), raise_on_ctrl_c():
                while line := read_line("> "):
                    lines.append(line)
                    if not (several and input_waits()):
                        break
        except EOFError:
            self._screen.blank()
        except Interrupted:
            self._screen.blank()
            raise
        return lines


def parse_approval(line: str) -> ApprovalInput | str:
    """Return the decision that was typed, or an error message."""
    word, _, rest = line.strip().partition(" ")
    if word.lower() in ("y", "yes") and not rest:
        return ApprovalInput(True)
    if word.lower() in ("n", "no"):
        return ApprovalInput(False, reason=rest.strip())
    if not word.startswith("{"):
        return "say y, n, n REASON, or a JSON object"
    try:
        args = json.loads(line)
    except ValueError as error:
        return f"this is no JSON: {error}"
    return ApprovalInput(True, args) if isinstance(args, dict) else "this is no JSON object"


def _arguments_text(args: dict[str, Any]) -> str:
    """Return the complete arguments: the user approves exactly these."""
    line = escape_invisible(json.dumps(args, ensure_ascii=False))
    return line if len(line) <= MAX_LINE_CHARS else escape_invisible(json.dumps(args, ensure_ascii=False, indent=2))
