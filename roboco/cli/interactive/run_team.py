"""Run a team on the terminal: start the missing servers, submit the task, show it, and return the exit code."""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from roboco.cli.interactive.conversation import Conversation
from roboco.cli.interactive.live_view import LiveView
from roboco.cli.interactive.next_command import local_command, next_commands
from roboco.cli.interactive.user import TerminalUser
from roboco.cli.stack.local_model import Report
from roboco.cli.stack.local_stack import LocalStack, missing_servers
from roboco.cli.terminal.caller import caller_settings
from roboco.cli.terminal.exit import FAILED, SUCCESS
from roboco.cli.terminal.json_output import print_item
from roboco.cli.terminal.key_echo import key_echo
from roboco.cli.terminal.log_notes import LogNotes
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.signals import Interrupted
from roboco.client.orchestrator import Orchestrator
from roboco.client.task import Task
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.errors import TransientError
from roboco.settings import Settings

STOP_TIMEOUT: Final = 15.0
"""Seconds that a stopped task has to end."""
CLOSE_TIMEOUT: Final = 10.0
"""Seconds that a coordinator has to complete the workspace of an ended task."""
_POLL_INTERVAL: Final = 0.02
_SERVING_INTERVAL: Final = 0.5


@dataclass(frozen=True)
class RunOptions:
    """The options of the command line."""

    prompt: str
    task: dict[str, Any] = field(default_factory=dict)
    """Options of the task, as `Orchestrator.run` takes them."""
    as_json: bool = False
    worker: bool = False
    """Start a worker even if ROBOCO_REDIS_URL is set."""
    allowed: tuple[str, ...] = ()
    """MCP servers that the worker of this command may start."""
    web: bool = False
    """Serve the web view of the task, until Ctrl-C."""
    subtasks: bool = False
    """Show the sub-tasks, too."""
    must_complete: bool = False
    """A task that waits is a failure: the team asks its user nothing."""


def run_team(team: Team, options: RunOptions) -> int:
    """Run the team, show it live, and return the exit code. Every process that it starts ends before."""
    settings = caller_settings()
    allowlist = settings.allowlist.extended(mcp_servers=options.allowed)
    settings = settings.model_copy(update={"allowlist": allowlist})
    screen = Screen(sys.stdout)
    notes = Screen(sys.stderr) if options.as_json else screen
    note = partial(_note, notes)
    missing = missing_servers(team, os.environ, options.worker)
    with key_echo(False), LogNotes().installed() as logged, LocalStack(settings, missing, note) as stack:
        # Built while the model loads: a wrong configuration is reported before it has arrived.
        orchestrator = Orchestrator(stack.settings)
        stack.close_at_end(orchestrator.close)
        page = stack.start_gateway() if options.web else ""
        stack.wait_model()
        task = orchestrator.run(team, options.prompt, **options.task)
        if page:
            _note_command(notes, f"web view: {page}#/tasks/{quote(task.task_id, safe='')}")
        task.worker_check.has_own_worker = stack.has_worker

        def check() -> None:
            stack.check()
            logged.print(notes)

        try:
            if options.as_json:
                show = partial(print_item, sys.stdout)
                conversation = Conversation(task, task.astream(subtasks=options.subtasks), show, check=check)
            else:
                conversation = _interactive_conversation(task, screen, check, options.subtasks)
            describe_next = partial(_next_commands, task, stack.has_worker)
            code = _follow(conversation, task, notes, describe_next, options.must_complete)
        except BrokenPipeError:
            task.stop("the reader of its output has gone")
            _wait_until_closed(task)
            raise
        finally:
            screen.status("")
            logged.print(notes)
        notes.line((f"files: {_files_location(settings, task.task_id)}", "dim"))
        if page:
            _serve_until_interrupted(stack, notes)
        return code


def _serve_until_interrupted(stack: LocalStack, notes: Screen) -> None:
    """Keep the web view and the worker running. Raise TransientError if a server of this command dies."""
    _note(notes, "the web view stays until Ctrl-C")
    with suppress(Interrupted):
        while True:
            stack.check()
            time.sleep(_SERVING_INTERVAL)


def _next_commands(task: Task, is_local: bool, status: TaskStatus) -> list[str]:
    """Return the commands that continue the task. If `is_local`, its Redis and worker end with this command."""
    pending = task.pending_actions()
    if not is_local:
        return next_commands(task.task_id, pending, status)
    asks = status is TaskStatus.USER_TURN or (status is TaskStatus.APPROVAL and bool(pending.unapproved()))
    return [local_command(task.task_id, status, asks)]


def _note(notes: Screen, text: str) -> None:
    notes.paragraph((text, "dim"))


def _note_command(notes: Screen, text: str) -> None:
    """Print a command on one line that is not broken between words, so that it can be copied."""
    notes.line((f"  {text}", "dim"))


def _interactive_conversation(task: Task, screen: Screen, check: Callable[[], None], subtasks: bool) -> Conversation:
    """Return the conversation for people; on a terminal the user takes part in it."""
    interactive = sys.stdin.isatty()
    view = LiveView(screen, hint=" · Ctrl-C to speak or stop" if interactive else "", task_id=task.task_id)
    user = TerminalUser(task, task.pending_actions(), screen, view) if interactive else None
    if user is not None and user.interjects:
        _note(screen, "Ctrl-C lets you send a message to the team; twice stops the task")

    def check_and_animate() -> None:
        check()
        view.show_status(task.worker_check.missing_worker)

    return Conversation(task, task.astream(subtasks=subtasks), view.show, user=user, check=check_and_animate)


def exit_code(status: TaskStatus, must_complete: bool) -> int:
    """Return the exit code of a command whose task has this status."""
    waits = status.waiting and not must_complete
    return SUCCESS if waits or status is TaskStatus.COMPLETED else FAILED


def _follow(
    conversation: Conversation,
    task: Task,
    notes: Screen,
    describe_next: Callable[[TaskStatus], list[str]],
    must_complete: bool,
) -> int:
    """Show the conversation until the task has ended, waits, or is stopped. Return the exit code."""
    try:
        status = conversation.follow()
    except Interrupted as signal:
        if _stop_in_time(conversation, partial(_note, notes)):
            _wait_until_closed(task)
        return signal.exit_code
    _wait_until_closed(task)
    if status.waiting:
        _note(notes, f"the task waits ({status}); to continue:")
        for command in describe_next(status):
            _note_command(notes, command)
    return exit_code(status, must_complete)


def _stop_in_time(conversation: Conversation, note: Report) -> bool:
    """Stop the task. Return True if it has ended in time."""
    note("stopping the task ... (Ctrl-C once more leaves immediately)")
    try:
        conversation.stop("stopped by the user", STOP_TIMEOUT)
    except (TimeoutError, TransientError) as error:
        note(f"{error}; it is stopped as soon as a worker processes it")
        return False
    return True


def _wait_until_closed(task: Task) -> None:
    """Wait until the workspace of an ended task is complete. Return immediately if the task waits."""
    deadline = time.monotonic() + CLOSE_TIMEOUT
    while time.monotonic() < deadline:
        if task.is_at_rest():
            return
        time.sleep(_POLL_INTERVAL)


def _files_location(settings: Settings, task_id: str) -> str:
    """Return the path of the task's files, relative to the current folder if it is below, or their URL and server."""
    if not settings.workspace.startswith("file:"):
        server = f" at {settings.s3_endpoint_url}" if settings.s3_endpoint_url else ""
        return f"{settings.workspace.rstrip('/')}/{task_id}{server}"
    parts = urlsplit(settings.workspace)
    folder = Path(unquote(parts.netloc + parts.path)).absolute() / task_id
    return str(folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder)
