"""next_command: the command with which a user continues a waiting task."""

from roboco.client.pending_actions import PendingActions
from roboco.domain.history.part import ToolCall
from roboco.domain.status import TaskStatus


def next_command(task_id: str, pending: PendingActions, status: TaskStatus, is_local: bool) -> str:
    """Return the command that continues a task in this status. If `is_local`, its workers end with this command."""
    again = f"run it again with --id {task_id} on a terminal"
    match status:
        case TaskStatus.APPROVAL if calls := pending.unapproved():
            call, others = _call_argument(calls)
            decide = f"roboco approve {task_id} {call}, or roboco deny {task_id} {call}{others}"
            see = f"; roboco why {task_id} shows how a tool has changed" if pending.changes() else ""
            return again if is_local else f"{decide}{see}"
        case TaskStatus.APPROVAL:
            call, others = _call_argument(pending.unknown())
            return f"roboco resolve {task_id} {call} --happened, or --did-not-happen{others}"
        case TaskStatus.CLIENT_TOOL_TURN:
            call, others = _call_argument(pending.unanswered())
            return f"roboco answer {task_id} {call} --result JSON{others}"
        case TaskStatus.PAUSED if pending.at_limit():
            limits = f"roboco limits {task_id} with a higher limit, such as --max-steps"
            return f"{limits}; then {again}" if is_local else limits
        case TaskStatus.PAUSED:
            return f"roboco resume {task_id}"
        case _:
            return again if is_local else f"roboco send {task_id} MESSAGE"


def _call_argument(calls: list[ToolCall]) -> tuple[str, str]:
    """Return the id of the only call; or, for several calls, a placeholder and the list of them."""
    if len(calls) == 1:
        return calls[0].id, ""
    listed = ", ".join(f"{call.id} ({call.tool_name})" for call in calls)
    return "CALL", f"; calls: {listed}" if listed else ""
