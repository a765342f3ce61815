"""Listing: the tools of an MCP server as a task knows them, so that a later change of one is noticed."""

from typing import Any

from pydantic import ValidationError

from roboco.domain.canonical_json import canonical, sha256
from roboco.domain.schema import Recorded
from roboco.domain.team.mcp_server import Effect
from roboco.errors import CorruptHistory

MAX_LISTING = 4 * 1024 * 1024
"""The largest listing of one server that a task keeps, in characters of its JSON."""


class ListedTool(Recorded):
    """A tool as its server describes it, with the effect and the description that the team declares instead."""

    description: str
    input_schema: dict[str, Any]
    effect: Effect

    @property
    def digest(self) -> str:
        """The same for the same description, schema and effect; it changes if one of them does."""
        said = {"description": self.description, "input_schema": self.input_schema, "effect": self.effect}
        return sha256(canonical(said))


class Listing(Recorded):
    """The tools of one server, by the server's own names.

    `error` says why they are not known, after `tries`. With `refused` no further try can help: the operator does not
    allow the server, or it lacks a tool that the team names. `missing` says which tools it lacks; a listing with it is
    never stored.
    """

    tools: dict[str, ListedTool] = {}
    error: str = ""
    tries: int = 0
    refused: bool = False
    missing: str = ""

    def with_tools(self, newer: "Listing") -> "Listing":
        """This listing, with the tools of a newer one in place of its own."""
        return Listing(tools=self.tools | newer.tools)


class ToolChange(Recorded):
    """A tool that is not the one that the task's listing describes: `tool` is what its server lists now."""

    server: str
    remote: str
    tool: ListedTool


def read_listing(path: str, data: bytes) -> Listing:
    """The listing of one stored file; CorruptHistory if it cannot be read."""
    try:
        return Listing.model_validate_json(data)
    except ValidationError as error:
        message = error.errors(include_url=False)[0]["msg"]
        raise CorruptHistory(f"{path} cannot be read: {message}; restore the file, or stop the task") from error
