"""McpTool: a tool as its server describes it, within bounds: what a server says is untrusted input."""

from dataclasses import dataclass, replace
from typing import Any

from roboco.adapters.json_schema import schema_mistake
from roboco.domain.canonical import checked_json, well_formed
from roboco.domain.mcp_server import Effect, McpServer

MAX_DESCRIPTION = 4000
"""How many characters of a description are kept."""


@dataclass(frozen=True)
class McpTool:
    """What a model is told of the tool, and what a call does to the world."""

    description: str
    input_schema: dict[str, Any]
    effect: Effect


@dataclass(frozen=True)
class Hints:
    """What a server says of a tool's effect; nobody checks it."""

    read_only: bool = False
    idempotent: bool = False

    @property
    def effect(self) -> Effect:
        """The most careful effect that agrees with the hints."""
        if self.read_only:
            return "pure"
        return "idempotent" if self.idempotent else "irreversible"


def described(description: str, schema: Any, hints: Hints, in_time: bool = True) -> McpTool:
    """The tool; a schema that cannot be used, or checked in time, becomes an open one, and the description says so."""
    text = well_formed(description).replace("\0", "")
    if len(text) > MAX_DESCRIPTION:
        text = f"{text[: MAX_DESCRIPTION - 4]} ..."
    if wrong := schema_mistake(schema) if in_time else "came too late":
        note = f"(The server's schema of the arguments is left out: it {wrong}.)"[:500]
        return McpTool(f"{text[: MAX_DESCRIPTION - len(note) - 1]} {note}".strip(), _open(), hints.effect)
    return McpTool(text, checked_json(schema), hints.effect)


def unreachable(reason: str) -> McpTool:
    """What stands in for a tool whose server was never reached; a call of it tries again."""
    note = f"(Its MCP server could not be reached, so nothing is known about this tool: {reason}.)"
    return McpTool(note[:MAX_DESCRIPTION], _open(), "irreversible")


def as_team_says(server: McpServer, name: str, tool: McpTool) -> McpTool:
    """The tool with the effect and the description that the team declares for it, if it does."""
    settings = server.tools[name]
    changed = replace(tool, effect=settings.effect) if settings.effect is not None else tool
    return replace(changed, description=settings.description) if settings.description is not None else changed


def _open() -> dict[str, Any]:
    return {"type": "object"}
