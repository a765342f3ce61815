"""The calls of a run of `what-if`: which of them run without a recorded result, and which tools keep their effect."""

from collections.abc import Iterator

from roboco.domain.builtin_tools import DELEGATE, MEMORY_TOOLS, RECALL
from roboco.domain.decision.tool_answers import is_client_call, requires_approval, spec_of
from roboco.domain.history.part import ToolCall
from roboco.domain.history.step import TaskStep
from roboco.domain.schema import Effect
from roboco.domain.team.mcp_server import McpServer, McpToolSettings
from roboco.domain.team.team import Team, default_prefix
from roboco.domain.team.tool_spec import TaskTool, ToolSpec

REFUSED = "not run: this is a what-if run, and task "
"""The beginning of the error of a refused call."""


def takes_recorded_result(team: Team, step: TaskStep, call: ToolCall) -> bool:
    """Return True if a recorded result answers the call. Built-in tools run: their effects are in the run's own files.

    A delegation is answered, because a sub-task costs as much as its whole team, and so is a call about the memory,
    which other tasks share.
    """
    return call.tool_name in {DELEGATE, *MEMORY_TOOLS} or is_client_call(call) or spec_of(team, step, call) is not None


def refusal_reason(team: Team, step: TaskStep, call: ToolCall) -> str | None:
    """Return why a call without a recorded result does not run in this run, or None if it runs.

    A built-in tool affects only the run itself, unless it changes the memory, and a sub-task is a run too. An
    idempotent tool is refused: other arguments than the recorded ones would have another effect.
    """
    rule, spec = team.what_if, spec_of(team, step, call)
    changes_memory = spec is None and call.tool_name in MEMORY_TOOLS - {RECALL}
    if rule is None or (spec is None and not is_client_call(call) and not changes_memory):
        return None
    if changes_memory:
        why = "it changes the memory that other tasks share"
    elif spec is None:
        why = "the client runs it"
    elif spec.effect != "pure":
        why = f"its effect is {spec.effect}"
    elif call.tool_name in rule.effects:
        why = f"its effect is {rule.effects[call.tool_name]} in the task's own team"
    elif requires_approval(team, call):
        why = "a person must approve it"
    elif rule.unrecorded == "refuse":
        why = "calls without a recorded result are refused"
    else:
        return None
    asked = "after this conversation" if step.begins_function else "with these arguments"
    return f"{REFUSED}{rule.source!r} has no recorded result for {call.tool_name!r} {asked} ({why})"


def effects_to_keep(team: Team, source: Team) -> dict[str, Effect]:
    """Return the effects of tools in `source` that `team` declares as pure, or leaves to their server, by their names.

    A tool is the same one under the same name, with the same function, or with the same name at the same MCP server. If
    `source` leaves the effect of such a tool to the server, it counts as irreversible. The teams in `source` count too,
    those in `team` do not.
    """
    names, functions = dict[str, Effect](), dict[str, Effect]()
    servers = [(prefix, server) for one in _teams(source) for prefix, server in _servers(one)]
    for spec in (spec for one in _teams(source) for spec in one.declared_tools if spec.effect != "pure"):
        names[spec.name] = functions[_code_of(spec)] = spec.effect
    for prefix, server in servers:
        for remote, settings in _named_tools(prefix, server):
            if settings.effect not in (None, "pure") and (name := server.name_of(prefix, remote)):
                names[name] = settings.effect
    kept = {
        spec.name: names.get(spec.name) or functions[_code_of(spec)]
        for spec in team.declared_tools
        if spec.effect == "pure" and (spec.name in names or _code_of(spec) in functions)
    }
    for prefix, server in _servers(team):
        kept |= _of_server(
            prefix,
            server,
            names,
            [known for _, known in servers if (known.command, known.url) == (server.command, server.url)],
        )
    return kept


def _code_of(tool: ToolSpec | TaskTool) -> str:
    return tool.task if isinstance(tool, TaskTool) else tool.function


def _of_server(prefix: str, server: McpServer, names: dict[str, Effect], known: list[McpServer]) -> dict[str, Effect]:
    """Return the effects to keep of the tools of a server of the run. `known` are its declarations for the task."""
    kept = {name: effect for name, effect in names.items() if server.remote_of(prefix, name) is not None}
    for declared in known:
        for remote, settings in _named_tools(prefix, declared):
            name = server.name_of(prefix, remote)
            if name is not None and settings.effect not in (None, "pure"):
                kept[name] = settings.effect
        for remote, own in _named_tools(prefix, server):
            settings_before, name = declared.settings_of(prefix, remote), server.name_of(prefix, remote)
            if name is not None and own.effect == "pure" and settings_before and settings_before.effect is None:
                kept.setdefault(name, "irreversible")
    return kept


def _named_tools(prefix: str, server: McpServer) -> Iterator[tuple[str, McpToolSettings]]:
    """Yield the short name of each named tool, with the team's settings of it."""
    return ((remote, server.named_tools[name]) for remote, name in server.named_by_short_name(prefix).items())


def _servers(team: Team) -> Iterator[tuple[str, McpServer]]:
    """Yield the servers of a team, each with the default prefix of its tools."""
    return ((default_prefix(name), server) for name, server in team.mcp_servers.items())


def _teams(team: Team) -> Iterator[Team]:
    yield team
    for inner in team.teams.values():
        yield from _teams(inner)
