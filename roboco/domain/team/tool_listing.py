"""Listing: the tools of an MCP server as a task knows them, so that a later change of one is detected."""

from typing import Any

from pydantic import ValidationError

from roboco.domain.canonical_json import canonical_json, sha256
from roboco.domain.schema import RecordModel
from roboco.domain.team.effect import Effect
from roboco.errors import CorruptHistory

MAX_LISTING_CHARS = 4 * 1024 * 1024
"""The largest listing of one server that a task stores, in characters of its JSON."""


class ListedTool(RecordModel):
    """A tool as its server describes it. Effect and description of the team file replace the server's."""

    description: str
    input_schema: dict[str, Any]
    effect: Effect

    @property
    def digest(self) -> str:
        """Return a digest of description, schema and effect. It changes if one of them changes."""
        said = {"description": self.description, "input_schema": self.input_schema, "effect": self.effect}
        return sha256(canonical_json(said))


class Listing(RecordModel):
    """The tools of one server, by the server's own names."""

    tools: dict[str, ListedTool] = {}
    error: str = ""
    """The reason why the tools are not known, or ""."""
    attempts: int = 0
    """The number of failed attempts."""
    refused: bool = False
    """True if no further attempt can help.

    Either the operator does not allow the server, or it lacks a tool that the team names.
    """
    missing: str = ""
    """The tools that the server lacks. A listing with this text is never stored."""

    def updated_with(self, newer: "Listing") -> "Listing":
        """Return this listing, updated with the tools of a newer one."""
        return Listing(tools=self.tools | newer.tools)


class ToolChange(RecordModel):
    """A tool that differs from the task's listing."""

    server: str
    remote: str
    tool: ListedTool
    """The tool as its server lists it now."""


def parse_listing(path: str, data: bytes) -> Listing:
    """Return the listing of one stored file.

    Raise CorruptHistory if it cannot be read.
    """
    try:
        return Listing.model_validate_json(data)
    except ValidationError as error:
        message = error.errors(include_url=False)[0]["msg"]
        raise CorruptHistory(f"{path} cannot be read: {message}; restore the file, or stop the task") from error
