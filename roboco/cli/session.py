"""A session: one task run on the terminal, from what has to be started to the exit code."""

import os
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from roboco.cli.conversation import Conversation
from roboco.cli.json_lines import JsonLines
from roboco.cli.live import LiveView
from roboco.cli.local_model import Tell
from roboco.cli.local_stack import LocalStack, missing
from roboco.cli.lookout import Lookout
from roboco.cli.screen import Screen
from roboco.cli.signals import Interrupted
from roboco.client.task import Task
from roboco.domain.status import TaskStatus
from roboco.domain.team import Team
from roboco.errors import TransientError
from roboco.settings import read_settings

_STOPPING = 15.0
"""Seconds that a stopped task has to end."""
_CLOSING = 10.0
"""Seconds that an ended task has until its workspace is complete."""


@dataclass(frozen=True)
class Wish:
    """What the command line asks for."""

    prompt: str
    context: dict[str, str] = field(default_factory=dict)
    agent: str | None = None
    task_id: str | None = None
    as_json: bool = False
    worker: bool = False


def run_team(team: Team, wish: Wish) -> int:
    """Run the team and show it live: the exit code. Nothing that was started is left behind."""
    settings = read_settings()
    screen = Screen(sys.stdout)
    notes = Screen(sys.stderr) if wish.as_json else screen
    tell = partial(_tell, notes)
    with LocalStack(settings, missing(team, os.environ, wish.worker), tell) as stack:
        task = stack.orchestrator.run(
            team, wish.prompt, task_id=wish.task_id, context=dict(wish.context), agent=wish.agent
        )
        try:
            code = _converse(_conversation(task, stack, wish, screen, tell), task, stack, tell)
        except BrokenPipeError:
            task.stop("nobody reads its output")
            _close(task)
            raise
        tell(f"files: {_place(settings.workspace, task.task_id)}")
        return code


def _tell(notes: Screen, text: str) -> None:
    notes.line((text, "dim"))


def _conversation(task: Task, stack: LocalStack, wish: Wish, screen: Screen, tell: Tell) -> Conversation:
    look = stack.check if stack.has_worker else Lookout(task, tell)
    if wish.as_json:
        return Conversation(task, JsonLines(sys.stdout), look=look)
    view = LiveView(screen)
    ask = partial(_ask, screen, view) if sys.stdin.isatty() else None
    return Conversation(task, view, ask=ask, look=look)


def _converse(conversation: Conversation, task: Task, stack: LocalStack, tell: Tell) -> int:
    """The exit code of a conversation that has ended, or was stopped."""
    try:
        status = conversation.follow()
    except Interrupted as signal:
        if _stopped(conversation, tell):
            _close(task)
        return signal.exit_code
    _close(task)
    if status.waiting:
        again = _how_to_go_on(task.task_id, status, stack.has_worker)
        tell(f"the task waits ({status}): {again}")
    return 0 if status.waiting or status is TaskStatus.COMPLETED else 1


def _how_to_go_on(task_id: str, status: TaskStatus, alone: bool) -> str:
    """What the user can do for a waiting task; `alone`: its workers end with this command."""
    if status is TaskStatus.APPROVAL:
        return f"roboco resolve {task_id} CALL_ID --happened, or --did-not-happen"
    return f"run it again with --id {task_id} on a terminal" if alone else f"roboco send {task_id} MESSAGE"


def _ask(screen: Screen, view: LiveView) -> str | None:
    """The message that the user types, ended by an empty line; None if there is none."""
    screen.blank()
    screen.line(("your answer, ended by an empty line; nothing to leave", "dim"))
    lines: list[str] = []
    try:
        while line := input("> "):
            lines.append(line)
    except EOFError:
        screen.blank()
    message = "\n".join(lines)
    if not message.strip():
        return None
    view.typed(message)
    return message


def _stopped(conversation: Conversation, tell: Tell) -> bool:
    """Stop the task: whether it has ended in time."""
    tell("stopping the task ... (Ctrl-C once more leaves at once)")
    try:
        conversation.stop("stopped by the user", _STOPPING)
    except (TimeoutError, TransientError) as error:
        tell(f"{error}; it is stopped as soon as a worker looks at it")
        return False
    return True


def _close(task: Task) -> None:
    """Wait until the workspace of an ended task is complete; one that waits is left as it is."""
    deadline = time.monotonic() + _CLOSING
    while time.monotonic() < deadline:
        status = task.summary().status
        if status.ended or status.waiting:
            return
        time.sleep(0.02)


def _place(workspace: str, task_id: str) -> str:
    """Where the task's files are: a path, from here if it is below, or a URL."""
    if not workspace.startswith("file:"):
        return f"{workspace.rstrip('/')}/{task_id}"
    parts = urlsplit(workspace)
    folder = Path(unquote(parts.netloc + parts.path)).absolute() / task_id
    return str(folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder)
