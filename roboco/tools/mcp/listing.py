"""The tools of an MCP server: as it lists them, as a task stores them, and as an agent sees them.

A server is untrusted. Its list is read tool by tool, within limits: an odd schema is replaced, and a tool that cannot
be offered is left out alone, with the reason.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from roboco.domain.canonical_json import well_formed
from roboco.domain.schema import Effect
from roboco.domain.team.known_tools import LIST_TOOLS, missing_tools_error
from roboco.domain.team.mcp_server import MAX_SERVER_TOOLS, McpServer, McpToolSettings
from roboco.domain.team.server_tool_names import short_names
from roboco.domain.team.team import Team, default_prefix
from roboco.domain.team.tool_listing import MAX_LISTING_CHARS, ListedTool, Listing
from roboco.domain.team.tool_spec import ServerTool
from roboco.errors import UsageError
from roboco.process.credential_mask import CredentialMask
from roboco.schemas.reduced_schema import reduced_schema

MAX_LISTED_TOOLS, MAX_OTHER_NAMES = 1000, 50
"""Maximum number of tools that are kept, and of names of other tools. The rest is counted."""
MAX_TOOL_NAME_CHARS = 128
"""Maximum length of a tool's name at its server, as the protocol has it."""
MAX_DESCRIPTION_CHARS = 4000
"""Maximum number of characters of a description."""
_MAX_NOTE_CHARS = 500
_MAX_SHOWN_PATHS, _MAX_PATH_CHARS, _MAX_SHOWN_NAMES = 4, 80, 5
_OPEN_SCHEMA: dict[str, Any] = {"type": "object"}
_log = logging.getLogger(__name__)


@dataclass
class ListedTools:
    """The tools that a server lists, by their own names, and those that Roboco does not keep."""

    tools: dict[str, ListedTool] = field(default_factory=dict)
    other_names: list[str] = field(default_factory=list)
    """The names of some tools that the team does not name."""
    left_out: dict[str, str] = field(default_factory=dict)
    """The tools that cannot be offered, with the reasons."""
    unnamed_count: int = 0
    """The number of further tools."""

    def add(self, tool: Any, wanted: Callable[[str], bool], mask: Callable[[str], str], in_time: bool) -> None:
        """Add a tool of the server's list. `wanted` returns True for the names that the team may use.

        A schema that arrives too late to be checked is replaced by one that accepts any object.
        """
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not name or not name.isprintable() or len(name) > MAX_TOOL_NAME_CHARS:
            shown = mask(name if isinstance(name, str) else repr(tool))[:MAX_TOOL_NAME_CHARS]
            self._leave_out(shown, "it has no valid name")
        elif name in self.tools:
            self._leave_out(mask(name), "its name is listed twice, and the first tool counts")
        elif wanted(name) and len(self.tools) < MAX_LISTED_TOOLS:
            self.tools[name] = _listed_tool(tool, mask, in_time)
        elif len(self.other_names) < MAX_OTHER_NAMES:
            self.other_names.append(mask(name))
        else:
            self.unnamed_count += 1

    def _leave_out(self, name: str, reason: str) -> None:
        if len(self.left_out) < MAX_OTHER_NAMES:
            self.left_out[name] = reason
        else:
            self.unnamed_count += 1

    def offered(self, server: McpServer, prefix: str) -> "ListedTools":
        """Return the tools that agents can call, by their short names, with the settings of the team.

        `prefix` is the default prefix of the server.
        """
        found = replace(self, tools={}, left_out=dict(self.left_out))
        for name, short in self._short_names(server, prefix).items():
            tool = _with_settings(server, prefix, short, self.tools[name])
            found.tools[short] = tool if name == short else tool.model_copy(update={"remote": name})
        unused = self.tools.keys() - {tool.remote or short for short, tool in found.tools.items()}
        reason = "no name is left for it with the server's prefix: choose a shorter one"
        found.left_out |= dict.fromkeys(sorted(unused), reason)
        return found

    def _short_names(self, server: McpServer, prefix: str) -> dict[str, str]:
        """Return the short names that the team uses. Under `tools` it has the server's names, or the short ones."""
        own = short_names(server.name_prefix(prefix), tuple(self.tools))
        if server.allows_all_tools:
            return dict(own)
        listed = {short: name for name, short in own.items()}
        named = server.named_by_short_name(prefix).items()
        found = {short: name if name in self.tools else listed.get(short) for short, name in named}
        return {name: short for short, name in found.items() if name is not None}


def is_wanted(server: McpServer, prefix: str) -> Callable[[str], bool]:
    """Return the test whether the team may use a tool, by the server's name for it."""
    named = {*server.named_tools, *server.named_by_short_name(prefix)}
    begins = server.name_prefix(prefix)
    return lambda name: server.allows_all_tools or name in named or short_names(begins, (name,)).get(name) in named


def build_listing(team: Team, server: str, offer: ListedTools) -> Listing:
    """Return the listing that a task stores. Raise UsageError if it is too large."""
    if team.mcp_servers[server].allows_all_tools and len(offer.tools) > MAX_SERVER_TOOLS:
        count = len(offer.tools) + len(offer.other_names) + len(offer.left_out) + offer.unnamed_count
        raise UsageError(
            f"MCP server {server!r} lists {count} tools, at most {MAX_SERVER_TOOLS} are kept: name those "
            "that the team needs under 'tools'"
        )
    if left_out := describe_left_out(offer):
        _warn_once(f"MCP server {server!r}: {left_out}")
    listing = Listing(
        tools=offer.tools,
        left_out=offer.left_out,
        missing=missing_tools_error(team, server, offer.tools, offer.other_names, offer.left_out),
    )
    size = len(listing.model_dump_json())
    if size > MAX_LISTING_CHARS:
        raise UsageError(
            f"MCP server {server!r} lists {len(offer.tools)} tools in {size} characters, at most {MAX_LISTING_CHARS} "
            "are kept: name fewer of its tools in the team"
        )
    return listing


def find_listed_tool(team: Team, spec: ServerTool, listing: Listing | None) -> ListedTool | None:
    """Return the tool as the listing describes it, or None if the server has no such tool.

    If the server was never listed, return a tool that accepts any object; its description contains the reason.
    """
    if listing is not None and not listing.error:
        return listing.tools.get(spec.remote)
    server = team.mcp_servers[spec.server]
    why = "its tools are not listed" if listing is None else listing.error
    if server.allows_all_tools and spec.remote == LIST_TOOLS:
        why = f"{why}. Call this to list all of its tools"
    note = f"(Its MCP server could not be reached, so nothing is known about this tool: {why}.)"
    unknown = ListedTool(description=note[:MAX_DESCRIPTION_CHARS], input_schema=_OPEN_SCHEMA, effect="irreversible")
    return _with_settings(server, default_prefix(spec.server), spec.remote, unknown)


def describe_left_out(offer: ListedTools) -> str:
    """Return a text that names the tools that cannot be offered, with the reasons, or "" if there are none."""
    if not offer.left_out:
        return ""
    shown = [f"{name!r} ({reason})" for name, reason in list(offer.left_out.items())[:_MAX_SHOWN_NAMES]]
    more = len(offer.left_out) - len(shown)
    which = "1 tool is" if len(offer.left_out) == 1 else f"{len(offer.left_out)} tools are"
    return f"{which} left out: {', '.join(shown)}{f' and {more} more' if more else ''}"


@lru_cache(maxsize=256)
def _warn_once(text: str) -> None:
    """Log the text once per process: a server is listed before each call."""
    _log.warning("%s", text)


def _with_settings(server: McpServer, prefix: str, short: str, tool: ListedTool) -> ListedTool:
    settings = server.settings_of(prefix, short) or McpToolSettings()
    return tool.model_copy(update=settings.model_dump(include={"effect", "description"}, exclude_none=True))


def _listed_tool(tool: dict[str, Any], mask: Callable[[str], str], in_time: bool) -> ListedTool:
    """Return the tool with the accepted part of its schema; its description names the parts that are left out."""
    texts = (tool.get("description"), tool.get("title"))
    text = well_formed(mask(next((text for text in texts if isinstance(text, str) and text), ""))).replace("\0", "")
    if len(text) > MAX_DESCRIPTION_CHARS:
        text = f"{text[: MAX_DESCRIPTION_CHARS - 4]} ..."
    schema = tool.get("inputSchema", tool.get("input_schema"))
    match "arrived too late" if not in_time else "is missing" if schema is None else reduced_schema(schema):
        case str(wrong):
            text = _with_note(text, f"(The server's schema of the arguments is left out: it {wrong}.)")
            reduced = _OPEN_SCHEMA
        case reduced, left_out:
            text = _with_note(text, _left_out_note(left_out)) if left_out else text
    return ListedTool(
        description=text, input_schema=CredentialMask(mask).mask_json(reduced), effect=_effect(tool.get("annotations"))
    )


def _effect(annotations: Any) -> Effect:
    """Return the most careful effect that agrees with the server's claims, which are not verified."""
    claims = annotations if isinstance(annotations, dict) else {}
    if claims.get("readOnlyHint") is True:
        return "pure"
    return "idempotent" if claims.get("idempotentHint") is True else "irreversible"


def _with_note(text: str, note: str) -> str:
    note = well_formed(note[:_MAX_NOTE_CHARS])
    return f"{text[: MAX_DESCRIPTION_CHARS - len(note) - 1]} {note}".strip()


def _left_out_note(left_out: tuple[str, ...]) -> str:
    """Return a note that names the first removed parts of a schema, and how many there are."""
    named = ", ".join(place[:_MAX_PATH_CHARS] for place in left_out[:_MAX_SHOWN_PATHS])
    more = f" and {len(left_out) - _MAX_SHOWN_PATHS} more" if len(left_out) > _MAX_SHOWN_PATHS else ""
    return f"(Left out of the server's schema of the arguments: {named}{more}.)"
