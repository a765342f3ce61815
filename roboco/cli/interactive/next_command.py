"""next_commands: the commands with which a user continues a waiting task, ready to be copied."""

from roboco.client.pending_actions import PendingActions
from roboco.domain.history.part import ToolCall
from roboco.domain.status import TaskStatus

BY_STATUS = {
    TaskStatus.APPROVAL: "roboco approve {task}",
    TaskStatus.CLIENT_TOOL_TURN: "roboco answer {task} --result JSON",
    TaskStatus.PAUSED: "roboco resume {task}",
    TaskStatus.USER_TURN: "roboco send {task} MESSAGE",
}
"""A command for each waiting status, which needs no call if one waits, and else lists the calls."""


def next_commands(task_id: str, pending: PendingActions, status: TaskStatus) -> list[str]:
    """Return the commands that continue a task in this status, one for each decision on each waiting call."""
    match status:
        case TaskStatus.APPROVAL if calls := pending.unapproved():
            return decisions(task_id, calls, "approve", "deny")
        case TaskStatus.APPROVAL:
            return decisions(task_id, pending.unknown(), "resolve --happened", "resolve --did-not-happen")
        case TaskStatus.CLIENT_TOOL_TURN:
            return decisions(task_id, pending.unanswered(), "answer --result JSON")
        case TaskStatus.PAUSED if pending.at_limit():
            return [f"roboco limits {task_id} --max-steps NUMBER (or another limit)"]
        case _:
            return [BY_STATUS[status].format(task=task_id)] if status in BY_STATUS else []


def local_command(task_id: str, status: TaskStatus, asks: bool) -> str:
    """Return how to continue a task whose Redis and worker have ended. `asks` is whether a terminal asks about it."""
    if asks:
        return f"run it again with --id {task_id} on a terminal"
    act = {TaskStatus.CLIENT_TOOL_TURN: "answer", TaskStatus.PAUSED: "resume"}.get(status, "resolve")
    return f"run it again with --id {task_id} --web, and {act} in the web view"


def decisions(task_id: str, calls: list[ToolCall], *verbs: str) -> list[str]:
    """Return a command for each verb and call; the only call needs no id."""
    found = []
    for call in calls:
        for verb in verbs:
            name, _, option = verb.partition(" ")
            chosen = f" {call.id}" if len(calls) > 1 else ""
            found.append(f"roboco {name} {task_id}{chosen} {option}".rstrip() + f"  # {call.tool_name}")
    return found
