"""McpTool: a tool as its server describes it, within limits, because a server's texts are untrusted input."""

from dataclasses import dataclass, replace
from typing import Any

from roboco.adapters.mcp.reduced_schema import reduced_schema
from roboco.domain.canonical_json import well_formed
from roboco.domain.team.effect import Effect
from roboco.domain.team.mcp_server import McpServer, McpToolSettings

MAX_DESCRIPTION_CHARS = 4000
"""Maximum number of characters of a description."""
_MAX_NOTE_CHARS = 500
_MAX_SHOWN_PATHS, _MAX_PATH_CHARS = 4, 80


@dataclass(frozen=True)
class McpTool:
    """A tool's description and schema for the model, and the effect of a call."""

    description: str
    input_schema: dict[str, Any]
    effect: Effect


@dataclass(frozen=True)
class ListedTools:
    """A server's list: the tools that the team may use, the names of some others, and the number of the rest."""

    tools: dict[str, McpTool]
    other_names: tuple[str, ...] = ()
    unnamed_count: int = 0


@dataclass(frozen=True)
class EffectHints:
    """A server's claims about a tool's effect. They are not verified."""

    read_only: bool = False
    idempotent: bool = False

    @property
    def effect(self) -> Effect:
        """Return the most careful effect that agrees with the hints."""
        if self.read_only:
            return "pure"
        return "idempotent" if self.idempotent else "irreversible"


def describe_tool(description: str, schema: Any, hints: EffectHints, in_time: bool = True) -> McpTool:
    """Return the tool with the accepted part of its schema; its description names the parts that are left out.

    A schema that cannot be used at all, or that arrived too late to be checked, is replaced by one that accepts any
    object.
    """
    text = well_formed(description).replace("\0", "")
    if len(text) > MAX_DESCRIPTION_CHARS:
        text = f"{text[: MAX_DESCRIPTION_CHARS - 4]} ..."
    match reduced_schema(schema) if in_time else "arrived too late":
        case str(wrong):
            note = f"(The server's schema of the arguments is left out: it {wrong}.)"
            return McpTool(_append_note(text, note), _any_object_schema(), hints.effect)
        case reduced, ():
            return McpTool(text, reduced, hints.effect)
        case reduced, left_out:
            return McpTool(_append_note(text, _left_out_note(left_out)), reduced, hints.effect)


def unreachable_tool(reason: str) -> McpTool:
    """Return a placeholder for a tool whose server was never reached. A call of it tries to reach the server again."""
    note = f"(Its MCP server could not be reached, so nothing is known about this tool: {reason}.)"
    return McpTool(note[:MAX_DESCRIPTION_CHARS], _any_object_schema(), "irreversible")


def apply_team_settings(server: McpServer, name: str, tool: McpTool) -> McpTool:
    """Return the tool with the effect and the description that the team declares for it, if any."""
    settings = server.settings_of(name) or McpToolSettings()
    changed = replace(tool, effect=settings.effect) if settings.effect is not None else tool
    return replace(changed, description=settings.description) if settings.description is not None else changed


def _append_note(text: str, note: str) -> str:
    note = well_formed(note[:_MAX_NOTE_CHARS])
    return f"{text[: MAX_DESCRIPTION_CHARS - len(note) - 1]} {note}".strip()


def _left_out_note(left_out: tuple[str, ...]) -> str:
    """Return a note that names the first removed parts of a schema, and how many there are."""
    named = ", ".join(place[:_MAX_PATH_CHARS] for place in left_out[:_MAX_SHOWN_PATHS])
    more = f" and {len(left_out) - _MAX_SHOWN_PATHS} more" if len(left_out) > _MAX_SHOWN_PATHS else ""
    return f"(Left out of the server's schema of the arguments: {named}{more}.)"


def _any_object_schema() -> dict[str, Any]:
    return {"type": "object"}
