"""tool_listings: the tools of MCP servers, as each task knows them.

    turn: listing stored? ─no─► ask a tools worker, defer the turn                     (agents pool: starts no server)
                                  └─► list the tools ─► mcp/SERVER.json (create: the first listing counts)
    call: list the tools again ─► same digest? ─no─► mcp/changes/CALL.json, and a person must decide
                                                       └─ approved ─► mcp/SERVER.approved.json (compare and set)

An agents worker composes its request from the stored listing alone. A tools worker lists the tools again before each
call. If the server has changed the tool since the task stored it, the call does not run until a person approves the
change. The listing wakes the turn that waits for it. One that fails is retried with growing pauses. After
`policy.max_attempts` failures the turn continues without it: the descriptions of the server's tools hold the error, and
a call of one of them lists the tools once more.

The tools of a server with `tools: all` are those of the stored listing. A tool that the server adds later is not
offered. A server that lacks a tool which the team names ends the task: only another team file can help.
"""

from collections.abc import Iterable

from roboco.domain.history.part import ToolCall, ToolOutcome, changed_tool_outcome, failed_outcome
from roboco.domain.ids import tenant_of
from roboco.domain.paths import (
    approved_tools_path,
    failed_listing_path,
    listing_path,
    listing_requests_path,
    tool_change_path,
)
from roboco.domain.team.mcp_server import McpServer
from roboco.domain.team.team import Agent, Team
from roboco.domain.team.tool_listing import (
    COMPARED_PARTS,
    Listing,
    ListingRequests,
    ToolChange,
    ToolDifference,
    parse_listing,
    tool_difference,
)
from roboco.domain.team.tool_spec import ServerTool
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.errors import NotFound, UsageError
from roboco.ports.assignment import ListingRequest
from roboco.ports.memories import change_record
from roboco.ports.snapshot import Snapshot
from roboco.ports.tools import Listings, MissingListing, TaskOwner

FIRST_RETRY_DELAY, MAX_RETRY_DELAY = 0.25, 60.0
"""Seconds until a deferred turn checks for a listing again. The delay doubles each time."""
LOST_REQUEST_DELAY = 30.0
"""Seconds, beside the server's `connect_timeout`, after which a request without an answer is sent again."""


def _servers_of(team: Team, agent: Agent) -> tuple[str, ...]:
    """Return the MCP servers whose tools the agent may use, in the order in which it names them."""
    found = (_server_of(team, name) for name in team.tools_of(agent)) if team.mcp_servers else ()
    return tuple(dict.fromkeys(server for server in found if server is not None))


def _server_of(team: Team, name: str) -> str | None:
    """Return the server of an entry of an agent's tools, or None for a tool of another kind."""
    spec = team.tool(name)
    return spec.server if isinstance(spec, ServerTool) else team.server_of_entry(name)


def listings_for(engine: Engine, task_id: str, team: Team, agent: Agent) -> Listings | MissingListing:
    """Return the listings of the agent's servers. If one is missing, return that, and send a tools worker to list it.

    A listing that has failed `policy.max_attempts` times is returned with its error. Raise UsageError if the operator
    does not allow a server, or if it lacks a tool that the team names.
    """
    found: dict[str, Listing] = {}
    for server in _servers_of(team, agent):
        listing = stored_listing(engine.workspace, task_id, server)
        if listing is None:
            listing = _failed_listing(engine.workspace, task_id, server)
            if listing.refused:
                raise UsageError(listing.error)
            if listing.attempts < engine.policy.max_attempts:
                return _request_listing(engine, task_id, agent, (server, team.mcp_servers[server]), listing)
        found[server] = listing
    return found


def stored_listing(workspace: WorkspaceRecords, task_id: str, server: str) -> Listing | None:
    """Return the task's listing of the server with the approved changes, or None if there is none yet."""
    first = _read_listing(workspace, listing_path(task_id, server))
    approved = None if first is None else _read_listing(workspace, approved_tools_path(task_id, server))
    return first if first is None or approved is None else first.updated_with(approved)


def list_tools(engine: Engine, request: ListingRequest) -> None:
    """List the tools of the server for the task, unless a listing is stored. The first stored listing counts.

    It may run twice and late. A failure is stored with its cause, for the waiting turn. If the server lacks a tool that
    the team names, no attempt follows.
    """
    path = listing_path(request.task_id, request.server)
    if engine.workspace.files.get(path) is not None:
        return
    team = engine.workspace.frozen_teams.get(request.task_id)
    if request.server not in team.mcp_servers:
        raise UsageError(f"server: team {team.name!r} of task {request.task_id!r} has no MCP server {request.server!r}")
    listing = _current_listing(engine, team, request.task_id, request.server)
    if listing.missing:
        listing = Listing(error=listing.missing, refused=True)
    if listing.error:
        tries = _failed_listing(engine.workspace, request.task_id, request.server).attempts + 1
        path = failed_listing_path(request.task_id, request.server)
        listing = listing.model_copy(update={"attempts": tries})
        engine.workspace.files.put(path, listing.model_dump_json().encode())
    else:
        engine.workspace.files.create(path, listing.model_dump_json().encode())
    wake_turn(engine, request.task_id, request.server)


def wake_turn(engine: Engine, task_id: str, server: str) -> None:
    """Dispatch the deferred turn if the listing is stored, or will not come. A turn that waits for more defers again.

    Its deferral and the listing may overlap, so both end with this. If it is lost, the turn's own delay ends.
    """
    if stored_listing(engine.workspace, task_id, server) is None:
        failed = _failed_listing(engine.workspace, task_id, server)
        if not failed.refused and failed.attempts < engine.policy.max_attempts:
            return
    task = engine.tasks.task_store.load(task_id, 1)
    if task is None or task.attempt.claimed or task.attempt.deferred_for is None:
        return
    if engine.tasks.leases.count_redelivery(task_id, task.position.epoch, dispatched=True):
        engine.services.dispatcher.turn(task.turn_order(task_id), task.position.agent)


def changed_tool_refusal(
    engine: Engine, team: Team, task_id: str, call: ToolCall, spec: ServerTool
) -> ToolOutcome | None:
    """Return the outcome of a call that may not run because its tool differs from the task's, or None if it may."""
    current = _current_listing(engine, team, task_id, spec.server)
    if current.error:
        return failed_outcome(call.id, current.error)
    stored = stored_listing(engine.workspace, task_id, spec.server)
    if stored is None and current.missing:
        return failed_outcome(call.id, f"not run: {current.missing}")
    if stored is None:
        engine.workspace.files.create(listing_path(task_id, spec.server), current.model_dump_json().encode())
        return failed_outcome(
            call.id, f"not run: the tools of MCP server {spec.server!r} were not known; they are now, {_CALL_AGAIN}"
        )
    if (tool := current.tools.get(spec.remote)) is None:
        return failed_outcome(call.id, f"not run: MCP server {spec.server!r} has no tool {spec.remote!r} any more")
    before = stored.tools.get(spec.remote)
    if before is not None and before.is_same(tool):
        return None
    change = ToolChange(server=spec.server, remote=spec.remote, tool=tool)
    engine.workspace.files.create(tool_change_path(task_id, call.id), change.model_dump_json().encode())
    names = [part for part in COMPARED_PARTS if before is None or before.comparable(part) != tool.comparable(part)]
    why = f"MCP server {spec.server!r} has changed {', '.join(names)} of tool {spec.remote!r}"
    return changed_tool_outcome(call, why)


def left_out_tools(workspace: WorkspaceRecords, task_id: str) -> list[str]:
    """Return the tools that servers list for the task and its agents cannot call, each with the reason."""
    team = workspace.frozen_teams.get(task_id)
    found = ((server, stored_listing(workspace, task_id, server)) for server in team.mcp_servers)
    return [
        f"tool {name!r} of MCP server {server!r} is left out: {reason}"
        for server, listing in found
        if listing is not None
        for name, reason in listing.left_out.items()
    ]


_CALL_AGAIN = "so call the tool again if its result is still needed"


def tool_differences(
    workspace: WorkspaceRecords, task_id: str, call_ids: Iterable[str], max_chars: int
) -> list[ToolDifference]:
    """Return how the tools of these calls have changed, for those that have: `max_chars` characters of each text.

    The first change that a call meets is stored and not replaced, so a person approves the one that was shown.
    """
    found = ((call_id, _stored_change(workspace, task_id, call_id)) for call_id in call_ids)
    return [
        _difference(workspace, task_id, call_id, change, max_chars) for call_id, change in found if change is not None
    ]


def _difference(
    workspace: WorkspaceRecords, task_id: str, call_id: str, change: ToolChange, max_chars: int
) -> ToolDifference:
    stored = stored_listing(workspace, task_id, change.server) or Listing()
    return tool_difference(call_id, stored.tools.get(change.remote), change, max_chars)


def _stored_change(workspace: WorkspaceRecords, task_id: str, call_id: str) -> ToolChange | None:
    data = workspace.files.get(tool_change_path(task_id, call_id))
    return None if data is None else ToolChange.model_validate_json(data)


def approve_change(workspace: WorkspaceRecords, task_id: str, call_id: str) -> None:
    """Record that a person has approved the tool as this call met it. A repetition changes nothing."""
    change = _stored_change(workspace, task_id, call_id)
    if change is None:
        raise NotFound(f"call_id: call {call_id!r} of task {task_id!r} has no tool change to approve")
    path, newer = approved_tools_path(task_id, change.server), Listing(tools={change.remote: change.tool})

    def parsed(data: bytes | None) -> Listing:
        return Listing() if data is None else parse_listing(path, data)

    change_record(workspace.files, path, parsed, lambda approved: approved.updated_with(newer))


def user_of(task: Snapshot) -> str | None:
    """Return the caller that created the task, or None."""
    user = task.steps.first.metadata.get("by")
    return user if isinstance(user, str) else None


def _current_listing(engine: Engine, team: Team, task_id: str, server: str) -> Listing:
    """Return the server's present listing, or one with the error."""
    task = engine.tasks.task_store.load(task_id, 1) if team.mcp_servers[server].auth == "user" else None
    owner = TaskOwner(tenant_of(task_id), None if task is None else user_of(task))
    try:
        return engine.services.toolbox.list_tools(team, server, owner)
    except UsageError as error:
        return Listing(error=str(error)[:2000], refused=True)


def _request_listing(
    engine: Engine, task_id: str, agent: Agent, of: tuple[str, McpServer], failed: Listing
) -> MissingListing:
    """Send a request for the listing, unless one is still without an answer. Return for how long the turn waits."""
    server, declared = of
    path, now = listing_requests_path(task_id, server), engine.now().timestamp()
    data = engine.workspace.files.get(path)
    known = ListingRequests() if data is None else ListingRequests.model_validate_json(data)
    lost = now - known.requested_at > declared.connect_timeout + LOST_REQUEST_DELAY
    send = lost or failed.attempts >= known.requests
    newer: dict[str, float] = {"checks": known.checks + 1}
    newer |= {"requests": known.requests + 1, "requested_at": now} if send else {}
    engine.workspace.files.put(path, known.model_copy(update=newer).model_dump_json().encode())
    if send:
        engine.services.dispatcher.list_tools(ListingRequest(task_id, server))
    delay = min(MAX_RETRY_DELAY, FIRST_RETRY_DELAY * 2.0 ** min(known.checks, 30))
    reason = f"{agent.name} waits until a tools worker has listed the tools of MCP server {server!r}"
    if failed.error:
        max_attempts = engine.policy.max_attempts
        reason = f"{reason}; {failed.attempts} of {max_attempts} attempts have failed: {failed.error}"[:1000]
    return MissingListing(server, delay, reason)


def _failed_listing(workspace: WorkspaceRecords, task_id: str, server: str) -> Listing:
    return _read_listing(workspace, failed_listing_path(task_id, server)) or Listing()


def _read_listing(workspace: WorkspaceRecords, path: str) -> Listing | None:
    data = workspace.files.get(path)
    return None if data is None else parse_listing(path, data)
