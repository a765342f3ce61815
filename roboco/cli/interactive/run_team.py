"""Running a team on the terminal, from what has to be started to the exit code."""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from roboco.cli.interactive.conversation import Conversation
from roboco.cli.interactive.live_view import LiveView
from roboco.cli.interactive.user import Person
from roboco.cli.interactive.waits import Waits
from roboco.cli.stack.local_model import Tell
from roboco.cli.stack.local_stack import LocalStack, missing
from roboco.cli.terminal.json_lines import JsonLines
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.signals import Interrupted
from roboco.client.task import Task
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.errors import TransientError
from roboco.settings import read_settings

_STOPPING = 15.0
"""Seconds that a stopped task has to end."""
_CLOSING = 10.0
"""Seconds that an ended task has until its workspace is complete."""


@dataclass(frozen=True)
class Wish:
    """The options of a command that runs a team."""

    prompt: str
    context: dict[str, str] = field(default_factory=dict)
    agent: str | None = None
    model: str | None = None
    title: str | None = None
    task_id: str | None = None
    as_json: bool = False
    worker: bool = False
    allowed: tuple[str, ...] = ()
    """MCP servers that a worker of this run may start."""
    tools: tuple[str, ...] = ()
    """Modules of tools that a worker of this run imports."""


def run_team(team: Team, wish: Wish) -> int:
    """Run the team, show it live, and return the exit code. Nothing that was started is left behind."""
    settings = read_settings()
    settings = settings.model_copy(
        update={"mcp": (*settings.mcp, *wish.allowed), "tools": (*settings.tools, *wish.tools)}
    )
    screen = Screen(sys.stdout)
    notes = Screen(sys.stderr) if wish.as_json else screen
    tell = partial(_tell, notes)
    with LocalStack(settings, missing(team, os.environ, wish.worker), tell) as stack:
        task = _submit(stack, team, wish)
        waits = Waits(stack.orchestrator.engine, team, task.task_id)
        look = stack.check if stack.has_worker else _no_worker_of_ours
        try:
            as_json = Conversation(task, JsonLines(sys.stdout), look=look) if wish.as_json else None
            conversation = as_json or _for_people(task, waits, screen, look)
            code = _converse(conversation, task, notes, partial(waits.how_to_go_on, alone=stack.has_worker))
        except BrokenPipeError:
            task.stop("its output is closed")
            _close(task)
            raise
        finally:
            screen.status("")
        notes.line((f"files: {_place(settings.workspace, task.task_id)}", "dim"))
        return code


def _no_worker_of_ours() -> None:
    """Do nothing: the task's stream reports if no worker takes it."""


def _tell(notes: Screen, text: str) -> None:
    notes.paragraph((text, "dim"))


def _tell_command(notes: Screen, text: str) -> None:
    """Print a command on one line that is not broken between words, so that it can be copied."""
    notes.line((f"  {text}", "dim"))


def _submit(stack: LocalStack, team: Team, wish: Wish) -> Task:
    return stack.orchestrator.run(
        team,
        wish.prompt,
        task_id=wish.task_id,
        context=dict(wish.context),
        agent=wish.agent,
        model=wish.model,
        title=wish.title,
    )


def _for_people(task: Task, waits: Waits, screen: Screen, look: Callable[[], None]) -> Conversation:
    """Return the conversation for people, who take part in it if they sit at a terminal."""
    interactive = sys.stdin.isatty()
    view = LiveView(screen, hint=" · Ctrl-C to speak or stop" if interactive else "")
    person = Person(task, waits, screen, view) if interactive else None
    if person is not None and person.interjects:
        _tell(screen, "Ctrl-C lets you send a message to the team; twice stops the task")

    def idle() -> None:
        look()
        view.idle()

    return Conversation(task, view, person=person, look=idle)


def _converse(conversation: Conversation, task: Task, notes: Screen, how_to_go_on: Callable[[TaskStatus], str]) -> int:
    """Return the exit code of a conversation that has ended, or was stopped."""
    try:
        status = conversation.follow()
    except Interrupted as signal:
        if _stopped(conversation, partial(_tell, notes)):
            _close(task)
        return signal.exit_code
    _close(task)
    if status.waiting:
        _tell(notes, f"the task waits ({status}); to continue:")
        _tell_command(notes, how_to_go_on(status))
    return 0 if status.waiting or status is TaskStatus.COMPLETED else 1


def _stopped(conversation: Conversation, tell: Tell) -> bool:
    """Stop the task. Return True if it has ended in time."""
    tell("stopping the task ... (Ctrl-C once more leaves at once)")
    try:
        conversation.stop("stopped by the user", _STOPPING)
    except (TimeoutError, TransientError) as error:
        tell(f"{error}; it stops as soon as a worker takes it")
        return False
    return True


def _close(task: Task) -> None:
    """Wait until the workspace of an ended task is complete. A waiting task is left as it is."""
    deadline = time.monotonic() + _CLOSING
    while time.monotonic() < deadline:
        status = task.summary().status
        if status.ended or status.waiting:
            return
        time.sleep(0.02)


def _place(workspace: str, task_id: str) -> str:
    """Return the place of the task's files: a path, relative if it is below the current folder, or a URL."""
    if not workspace.startswith("file:"):
        return f"{workspace.rstrip('/')}/{task_id}"
    parts = urlsplit(workspace)
    folder = Path(unquote(parts.netloc + parts.path)).absolute() / task_id
    return str(folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder)
