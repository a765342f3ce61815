"""Toolbox: the tools that this process can describe and run, and routers of the user's own."""

import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from roboco.adapters.artifacts.large_result import cut_large, keep_large
from roboco.adapters.artifacts.media import drop_media, keep_media
from roboco.adapters.json_schema import mistake, schema_mistake
from roboco.adapters.mcp.listed import as_listing, listed_tool
from roboco.adapters.mcp.media import taken_out
from roboco.adapters.mcp.servers import McpServers
from roboco.adapters.tools.builtin import BuiltinTools
from roboco.adapters.tools.function_tool import FunctionTool
from roboco.adapters.tools.functions import Functions
from roboco.adapters.tools.tool_failure import Mask, failure_lines, result_text
from roboco.adapters.tools.tool_output import log_output
from roboco.domain.builtin_tools import BUILTIN
from roboco.domain.decision.router import Router
from roboco.domain.history.call_failure import CallFailure
from roboco.domain.history.media import Media
from roboco.domain.history.part import Artifact, ToolCall
from roboco.domain.history.tool_outcome import Outcome, failure, success, unknown, without_effect
from roboco.domain.paths import failure_path
from roboco.domain.prompt.coordinator_tools import function_schema
from roboco.domain.team.known_tools import known_tools
from roboco.domain.team.team import Agent, Team
from roboco.domain.team.tool_listing import Listing
from roboco.domain.team.tool_spec import AnyTool, ServerTool, ToolSpec
from roboco.errors import NotRunnable, TransientError, UsageError
from roboco.ports import CallContext, Files, Listings

_log = logging.getLogger(__name__)

LOGGED_FRAMES = 20
"""Frames of an exception of a tool in the log."""
KEPT_FRAMES = 5
"""Frames of an exception of a tool in the workspace."""


@dataclass(frozen=True)
class _Ran:
    """What a call has returned, the artifacts that it made, and files of the result that are to be stored."""

    result: Any
    artifacts: tuple[Artifact, ...] = ()
    media: tuple[Media, ...] = ()


class FunctionToolbox:
    """Built-in tools, tools of MCP servers, and functions of the modules that the operator allows.

    `time_up` is the exception by which the pool tells a tool that its time is up. `mask` takes secrets out of a tool's
    exceptions, and of its output in the log.
    """

    def __init__(
        self,
        files: Files,
        builtin: BuiltinTools,
        servers: McpServers,
        functions: Functions,
        time_up: type[Exception] = TimeoutError,
        mask: Mask = str,
    ) -> None:
        self._files = files
        self._builtin = builtin
        self._servers = servers
        self._functions = functions
        self._time_up = time_up
        self._mask = mask

    def describe(self, team: Team, agent: Agent, listings: Listings) -> tuple[dict[str, Any], ...]:
        """The agent's own tools as the chat completions protocol has them; UsageError if one cannot be had.

        Those of MCP servers as the listings say; no server is started or asked.
        """
        schemas = (self._schema(team, name, listings) for name in known_tools(team, agent, listings))
        return tuple(schema for schema in schemas if schema is not None)

    def list_tools(self, team: Team, server: str) -> Listing:
        """The tools that this server of the team lists now, or the error; UsageError if it is not allowed here."""
        declared = team.mcp_servers[server]
        self._servers.check(declared)
        try:
            return as_listing(team, server, self._servers.tools_now(declared))
        except self._time_up:
            return Listing(error=f"MCP server {server!r} did not list its tools before the time of the call was up")
        except UsageError as error:
            return Listing(error=str(error)[:2000])

    def check(self, spec: AnyTool | None) -> None:
        """Raise NotRunnable if this process lacks the function of the tool."""
        if isinstance(spec, ToolSpec):
            self._functions.tool(spec.function)

    def schema_mistake(self, schema: dict[str, Any]) -> str:
        """What is wrong with the JSON Schema of an object; "" if nothing is."""
        return schema_mistake(schema)

    def mistake(self, schema: dict[str, Any], args: dict[str, Any]) -> str:
        """What the JSON Schema finds wrong with the arguments; "" if nothing."""
        return mistake(schema, args)

    def run(self, team: Team, call: ToolCall, spec: AnyTool | None, context: CallContext) -> Outcome:
        """Run the call; whatever goes wrong is in the outcome.

        TransientError only where the workspace fails, so that the call is tried again.
        """
        began = time.monotonic()
        try:
            ran = self._ran(team, call, spec, context)
        except UsageError as error:
            return failure(call.id, str(error), _elapsed_ms(began))
        except self._time_up:
            return _timed_out(call, spec, _elapsed_ms(began))
        except TransientError:
            raise
        except Exception as error:  # a tool may raise anything, and the agent is told what
            runtime_ms = _elapsed_ms(began)
            self._note_failure(call, context, error)
            return failure(call.id, self._mask(result_text(error))[:2000], runtime_ms)
        made = {"artifacts": ran.artifacts, "media": ran.media}
        return success(call, ran.result, _elapsed_ms(began)).model_copy(update=made)

    def keep(self, outcome: Outcome, context: CallContext) -> Outcome:
        """The outcome, with its media, and a result that is too large for the history, in files of the task."""
        stored = keep_media(self._files, context.task_id, context.step_id, outcome)
        return keep_large(self._files, context.task_id, context.step_id, stored)

    def cut(self, outcome: Outcome) -> Outcome:
        """The outcome without media, with a result that is too large for the history cut to its beginning."""
        return cut_large(drop_media(outcome))

    def verify(self, call: ToolCall, spec: AnyTool, context: CallContext) -> Outcome | None:
        """What a lost call came to, as the tool's own `verify` finds out; None if it has none, or it fails."""
        if not isinstance(spec, ToolSpec):
            return None
        began = time.monotonic()
        try:
            with log_output(call.tool_name, context.task_id, self._mask):
                found = self._functions.tool(spec.function).find_out(call.args, context)
        except TransientError:
            raise
        except Exception as error:  # whoever looks may fail in any way, and then nobody knows
            self._log_failure("what came of the call could not be found out", call, context, error)
            return None
        if found is None:
            return None
        if not found.happened:
            return without_effect(call.id)
        return success(call, found.result, _elapsed_ms(began))

    def router(self, name: str) -> Router:
        """The router of the user's own with this name, "package.module:function"; UsageError if there is none."""
        return self._functions.router(name)

    def _ran(self, team: Team, call: ToolCall, spec: AnyTool | None, context: CallContext) -> _Ran:
        match spec:
            case None:
                return _Ran(*self._builtin.call(call.tool_name, call.args, context))
            case ServerTool():
                server = team.mcp_servers[spec.server]
                key, cancelled = context.idempotency_key, lambda: context.cancelled
                result, media = taken_out(self._servers.call(server, spec.remote, call.args, key, cancelled))
                return _Ran(result, media=media)
            case ToolSpec():
                with log_output(call.tool_name, context.task_id, self._mask):
                    return _Ran(self._functions.tool(spec.function).call(call.args, context))
            case _:
                raise UsageError(f"tool {call.tool_name!r} is of a kind that this worker does not know")

    def _note_failure(self, call: ToolCall, context: CallContext, error: Exception) -> None:
        """Log where the tool raised, and keep it for `roboco show`. The result of the call does not depend on it."""
        try:
            self._log_failure("the tool raised", call, context, error)
            noted = CallFailure(
                call_id=call.id,
                tool_name=call.tool_name,
                attempt=context.attempt,
                time=datetime.now(UTC),
                lines=failure_lines(error, KEPT_FRAMES, self._mask),
            )
            self._files.put(failure_path(context.task_id, call.id), noted.model_dump_json().encode())
        except Exception as other:  # the store does not answer, or the pool says that the time is up
            _log.warning("the frames of call %s of task %s are not kept: %r", call.id, context.task_id, other)

    def _log_failure(self, what: str, call: ToolCall, context: CallContext, error: Exception) -> None:
        """Log where the tool raised; the log quotes none of the arguments, which a model or a user has said."""
        lines = "\n  ".join(failure_lines(error, LOGGED_FRAMES, self._mask, call.args))
        named = f"tool {call.tool_name!r} of task {context.task_id}, call {call.id}, attempt {context.attempt}"
        _log.warning("%s: %s\n  %s", named, what, lines)

    def _schema(self, team: Team, name: str, listings: Listings) -> dict[str, Any] | None:
        """The tool as the protocol has it; None if its server does not have it."""
        spec = team.tool(name)
        if isinstance(spec, ServerTool):
            found = listed_tool(team.mcp_servers[spec.server], spec.remote, listings.get(spec.server))
            return None if found is None else function_schema(name, found.description, found.input_schema)
        if isinstance(spec, ToolSpec):
            return self._function(name, spec).schema(name, spec.description)
        if name in BUILTIN:
            return self._builtin.schema(name)
        raise UsageError(f"no tool {name!r} in team {team.name!r}")

    def _function(self, name: str, spec: ToolSpec) -> FunctionTool:
        try:
            return self._functions.tool(spec.function)
        except NotRunnable as error:
            raise NotRunnable(f"tool {name!r}: {error}", error.module) from error


def _timed_out(call: ToolCall, spec: AnyTool | None, runtime_ms: int) -> Outcome:
    """What is known of a call that was told to end: of an irreversible one, nothing."""
    limit = 0.0 if spec is None else spec.timeout
    message = f"tool {call.tool_name!r} did not end within its {limit:g} s"
    if spec is None or spec.effect != "irreversible":
        return failure(call.id, message, runtime_ms)
    return unknown(call.id, message, spec.on_unknown, runtime_ms)


def _elapsed_ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
