"""A changed tool on the screen, before a person approves or denies the change."""

from roboco.cli.terminal.screen import Screen
from roboco.domain.team.tool_listing import ToolDifference


def show_change(screen: Screen, change: ToolDifference) -> None:
    """Print each changed part as it was and as it is now, with invisible characters escaped."""
    screen.blank()
    title = f"tool {change.tool} of MCP server {change.server} has changed"
    screen.line(("── ", "yellow"), (title, "bold yellow"), (f" · call {change.call_id}", "dim"))
    for part in change.parts:
        screen.line((f"   {part.part}", "dim"))
        screen.line(("     was ", "dim"), part.before or "unknown to the task")
        screen.line(("     now ", "dim"), (part.after, "bold"))
