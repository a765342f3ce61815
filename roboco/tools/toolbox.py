"""Toolbox: the tools that this process can describe and run, and the user's own routers."""

import importlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, NoReturn, TypeVar

from roboco.domain.builtin_tools import BUILTIN_TOOLS
from roboco.domain.decision.router import Router
from roboco.domain.decision.tool_answers import ended_outcome
from roboco.domain.history.call_failure import CallFailure
from roboco.domain.history.part import (
    Artifact,
    Media,
    ToolCall,
    ToolOutcome,
    failed_outcome,
    not_executed_outcome,
    successful_outcome,
)
from roboco.domain.ids import tenant_of
from roboco.domain.paths import failure_path
from roboco.domain.prompt.coordinator_tools import function_schema
from roboco.domain.team.known_tools import known_tools
from roboco.domain.team.team import Agent, Team, default_prefix
from roboco.domain.team.tool_listing import Listing
from roboco.domain.team.tool_spec import (
    AgentFunction,
    PydanticTool,
    PydanticTurn,
    ServerTool,
    TaskTool,
    ToolDeclaration,
    ToolSpec,
)
from roboco.errors import NotRunnable, TransientError, UsageError
from roboco.ports.file import MAX_FILES_BYTES, File
from roboco.ports.tools import Listings, TaskOwner, ToolContext
from roboco.ports.workspace import Files
from roboco.process.credential_mask import CredentialMask
from roboco.process.credentials import Credentials
from roboco.schemas.json_schema import schema_error, value_error
from roboco.tools.builtin import BuiltinTools
from roboco.tools.function_answer import AgentAnswer, recorded_form
from roboco.tools.function_loader import FunctionLoader
from roboco.tools.function_tool import FunctionTool
from roboco.tools.mcp.listing import build_listing, find_listed_tool
from roboco.tools.mcp.servers import McpServers
from roboco.tools.output_types import OutputTypes
from roboco.tools.returned_files import split_files
from roboco.tools.tool_failure import error_text, failure_lines, result_text
from roboco.tools.tool_output import log_output
from roboco.tools.tool_result import to_json
from roboco.workspace.artifacts.store import find_artifact, iter_pieces
from roboco.workspace.artifacts.tool_files import offload_large, remove_media, store_media, truncate_large

_log = logging.getLogger(__name__)

Found = TypeVar("Found")
MAX_LOGGED_FRAMES = 20
"""Maximum number of frames of a tool's exception in the log."""
MAX_STORED_FRAMES = 5
"""Maximum number of frames of a tool's exception in the workspace."""


@dataclass(frozen=True)
class _CallResult:
    """A call's result, the artifacts that it created, and the media of the result, which are not stored yet."""

    result: Any
    artifacts: tuple[Artifact, ...] = ()
    media: tuple[Media, ...] = ()
    answer: dict[str, Any] = field(default_factory=dict)
    """The answer of an agent's function."""
    usage: dict[str, int | float] = field(default_factory=dict)


class FunctionToolbox:
    """Built-in tools, tools of MCP servers, and functions of the modules that the operator allows.

    `time_limit_error` is the exception with which the pool ends a tool at its time limit. The mask of `credentials`
    removes secrets from a tool's result, its exceptions, and its output in the log.
    """

    def __init__(
        self,
        files: Files,
        builtin: BuiltinTools,
        servers: McpServers,
        functions: FunctionLoader,
        time_limit_error: type[Exception] = TimeoutError,
        credentials: Credentials | None = None,
    ) -> None:
        self._files = files
        self._builtin = builtin
        self._servers = servers
        self._functions = functions
        self._credentials = credentials or Credentials()
        self._mask = self._credentials.mask
        self._outputs = OutputTypes(functions, self._mask)
        self._time_limit_error = time_limit_error

    def describe(self, team: Team, agent: Agent, listings: Listings) -> tuple[dict[str, Any], ...]:
        """Return the agent's tools in the format of the chat completions protocol. Raise UsageError if one is unknown.

        Tools of MCP servers are described by the listings; no server is started or contacted.
        """
        schemas = (self._schema(team, name, listings) for name in known_tools(team, agent, listings))
        return tuple(schema for schema in schemas if schema is not None)

    def list_tools(self, team: Team, server: str, owner: TaskOwner) -> Listing:
        """Return the tools that this server of the team lists now, or the error.

        Raise UsageError if the server is not allowed on this worker.
        """
        declared = team.mcp_servers[server]
        self._servers.check(declared)
        try:
            return build_listing(team, server, self._servers.list_tools(declared, default_prefix(server), owner))
        except self._time_limit_error:
            return Listing(error=f"MCP server {server!r} did not list its tools before the time of the call was up")
        except UsageError as error:
            return Listing(error=self._credentials.mask_of(owner.tenant)(str(error))[:2000])

    def check(self, spec: ToolDeclaration | None) -> None:
        """Raise NotRunnable if this process lacks the function of the tool."""
        if isinstance(spec, PydanticTool | PydanticTurn):
            self._functions.pydantic_agent(spec.function)
        elif isinstance(spec, ToolSpec):
            self._functions.tool(spec.function)

    def schema_error(self, schema: dict[str, Any]) -> str:
        """Return why the JSON Schema of an object is refused, or "" if it is accepted."""
        return schema_error(schema)

    def args_error(self, schema: dict[str, Any], args: dict[str, Any]) -> str:
        """Return why the arguments do not fit the JSON Schema, or "" if they fit."""
        return value_error(schema, args)

    def call_error(self, team: Team, call: ToolCall, listings: Listings) -> str:
        """Return why the arguments of a call of the team's own tool do not fit, or "" if they fit or are not known."""
        spec = team.tool(call.tool_name)
        if isinstance(spec, ServerTool):
            listed = find_listed_tool(team, spec, listings.get(spec.server))
            found = "" if listed is None else value_error(listed.input_schema, call.args)
            return f"wrong arguments: {found}" if found else ""
        try:
            if isinstance(spec, ToolSpec):
                self._functions.tool(spec.function).checked_args(call.args)
        except NotRunnable:
            return ""  # the tools worker that has the function checks them
        except Exception as error:  # types of parameters are the user's
            return self._mask(str(error) if isinstance(error, UsageError) else result_text(error))[:2000]
        return ""

    def output_schema(self, agent: Agent) -> dict[str, Any]:
        """Return the JSON Schema of the agent's answer. Raise NotRunnable if this process lacks its module."""
        return self._outputs.schema(agent)

    def checked_output(self, agent: Agent, value: Any) -> Any:
        """Return the value of an agent's answer as JSON. Raise ValueError with the reason if it does not fit."""
        return self._outputs.checked(agent, value)

    def run(self, team: Team, call: ToolCall, spec: ToolDeclaration | None, context: ToolContext) -> ToolOutcome:
        """Run the call and return its outcome, which contains any failure of the tool.

        Raise TransientError only if the workspace fails, so that the call is retried.
        """
        started_at = time.monotonic()
        failed_before: list[str] = []
        mask = self._credentials.mask_of(context.tenant)
        try:
            result = self._repeated(team, call, spec, context, failed_before)
        except UsageError as error:
            return failed_outcome(call.id, mask(str(error)), _elapsed_ms(started_at))
        except self._time_limit_error:
            return _timed_out(team, call, spec, _elapsed_ms(started_at))
        except TransientError as error:
            _raise_masked(error, mask)
        except Exception as error:  # a tool may raise anything; the agent gets the error as the result
            runtime_ms = _elapsed_ms(started_at)
            self._store_failure(call, context, error)
            failed = failed_outcome(call.id, mask(result_text(error))[:2000], runtime_ms)
            return failed.model_copy(update={"failed_before": tuple(failed_before)})
        made = {
            "artifacts": result.artifacts,
            "media": tuple(_masked_media(one, spec, mask) for one in result.media),
            "state": mask.mask_json(dict(context.state_changes)),
            "answer": {name: mask.mask_json(value) for name, value in result.answer.items()},
            "usage": result.usage,
            "failed_before": tuple(failed_before),
        }
        shown = result.result if spec is None else mask.mask_json(result.result)
        return successful_outcome(call, shown, _elapsed_ms(started_at)).model_copy(update=made)

    def offload_large(self, outcome: ToolOutcome, context: ToolContext) -> ToolOutcome:
        """Return the outcome after storing its media, and a result too large for the history, as files of the task."""
        stored = store_media(self._files, context.task_id, context.step_id, outcome)
        return offload_large(self._files, context.task_id, context.step_id, stored)

    def truncate_large(self, outcome: ToolOutcome) -> ToolOutcome:
        """Return the outcome without media, with a result that is too large for the history truncated."""
        return truncate_large(remove_media(outcome))

    def verify(self, call: ToolCall, spec: ToolDeclaration, context: ToolContext) -> ToolOutcome | None:
        """Return the outcome of a lost call as the tool's own `verify` finds it, or None if it has none or it fails."""
        if not isinstance(spec, ToolSpec):
            return None
        started_at = time.monotonic()
        mask = self._credentials.mask_of(context.tenant)
        try:
            with log_output(call.tool_name, context.task_id, mask):
                verified = self._functions.tool(spec.function).verify_call(call.args, context)
        except TransientError as error:
            _raise_masked(error, mask)
        except Exception as error:  # `verify` may raise anything; then the outcome stays unknown
            self._log_failure("`verify` could not determine the outcome of the call", call, context, error)
            return None
        if verified is None:
            return None
        if not verified.happened:
            return not_executed_outcome(call.id)
        return successful_outcome(call, mask.mask_json(verified.result), _elapsed_ms(started_at))

    def router(self, name: str) -> Router:
        """Return the user's router "package.module:function". Raise UsageError if there is none."""
        return self._functions.router(name)

    def _repeated(
        self,
        team: Team,
        call: ToolCall,
        spec: ToolDeclaration | None,
        context: ToolContext,
        failed_before: list[str],
    ) -> _CallResult:
        """Return the result of the call. Run its function again after the exceptions that the team names.

        Add those exceptions to `failed_before`. A cancelled call is not repeated, and none near the end of its time,
        at which libraries may wrap the exception with which the pool ends a tool.
        """
        retry = spec.retry if isinstance(spec, ToolSpec) else None
        deadline = time.monotonic() + (0.0 if spec is None else 0.9 * spec.time_limit)
        while True:
            try:
                return self._dispatch(team, call, spec, context)
            except (UsageError, TransientError):
                raise
            except Exception as error:
                delay = 0.0 if retry is None else retry.delay * 2 ** len(failed_before)
                left = retry is not None and len(failed_before) < retry.times and _is_named(error, retry.on)
                if not left or time.monotonic() + delay >= deadline:
                    raise
                failed_before.append(self._credentials.mask_of(context.tenant)(error_text(error))[:500])
                context.state_changes.clear()
                if context.cancellation.wait(delay):
                    raise

    def _dispatch(self, team: Team, call: ToolCall, spec: ToolDeclaration | None, context: ToolContext) -> _CallResult:
        match spec:
            case None:
                return _CallResult(*self._builtin.call(call.tool_name, call.args, context))
            case ServerTool():
                server = team.mcp_servers[spec.server]
                owner = TaskOwner(tenant_of(context.task_id), context.user)
                key, cancelled = context.idempotency_key, lambda: context.cancelled
                result, media = self._servers.call(server, spec.remote, call.args, key, cancelled, owner)
                return _CallResult(result, media=media)
            case ToolSpec():
                context = replace(
                    context,
                    ask_credential=_once(spec, partial(self._credentials.get, context.tenant)),
                    read_artifact=_once(spec, partial(self._read_artifact, context.task_id)),
                )
                with log_output(call.tool_name, context.task_id, self._credentials.mask_of(context.tenant)):
                    return self._of_function(team, spec, call.args, context)
            case _:
                raise UsageError(f"tool {call.tool_name!r} is of a kind that this worker does not know")

    def _of_function(self, team: Team, spec: ToolSpec, args: dict[str, Any], context: ToolContext) -> _CallResult:
        """Return the result of a function or of a tool of pydantic-ai; or the answer, if the call is a turn."""
        usage, provider, files = dict[str, int | float](), dict[str, Any](), tuple[Media, ...]()
        if isinstance(spec, PydanticTool | PydanticTurn):
            agent, runs = team.agent(context.agent), importlib.import_module("roboco.tools.pydantic_agents")
            found = self._functions.pydantic_agent(spec.function)
            deps = None if agent.deps is None else self._functions.deps(agent.deps).returned({}, context)[0]
            if isinstance(spec, PydanticTool):
                return _CallResult(to_json(runs.run_call(found, deps, context, args), spec.name))
            run, returned = runs.take_turn(found, deps, context)
            usage, provider = {"tokens_in": run.tokens_in, "tokens_out": run.tokens_out}, run.record
        else:
            returned, files = self._function_tool(spec).returned(args, context)
            if not isinstance(spec, AgentFunction):
                return _CallResult(to_json(returned, spec.function), media=files)
            if isinstance(returned, AgentAnswer):
                files = split_files(returned.files)[1]
        checked = partial(self._outputs.checked, mask=self._credentials.mask_of(context.tenant))
        answer = recorded_form(team, returned, checked, context, provider)
        return _CallResult("answered", answer=answer, media=files, usage=usage)

    def _read_artifact(self, task_id: str, name: str) -> File:
        found = find_artifact(self._files, task_id, name)
        if found.size > MAX_FILES_BYTES:
            raise UsageError(f"artifact {name!r} has {found.size} bytes, at most {MAX_FILES_BYTES} are read as a whole")
        data = b"".join(iter_pieces(self._files, task_id, found))
        return File(found.name, data, mime_type=found.mime_type)

    def _store_failure(self, call: ToolCall, context: ToolContext, error: Exception) -> None:
        """Log where the tool raised, and store it for `roboco show`. The result of the call does not depend on this."""
        try:
            self._log_failure("the tool raised", call, context, error)
            noted = CallFailure(
                call_id=call.id,
                tool_name=call.tool_name,
                attempt=context.attempt,
                time=datetime.now(UTC),
                lines=failure_lines(error, MAX_STORED_FRAMES, self._credentials.mask_of(context.tenant)),
            )
            self._files.put(failure_path(context.task_id, call.id), noted.model_dump_json().encode())
        except Exception as other:  # the store does not respond, or the pool signals the time limit
            _log.warning("the frames of call %s of task %s are not kept: %r", call.id, context.task_id, other)

    def _log_failure(self, summary: str, call: ToolCall, context: ToolContext, error: Exception) -> None:
        """Log where the tool raised. The log quotes no arguments, which a model or a user wrote."""
        mask = self._credentials.mask_of(context.tenant)
        lines = "\n  ".join(failure_lines(error, MAX_LOGGED_FRAMES, mask, call.args))
        named = f"tool {call.tool_name!r} of task {context.task_id}, call {call.id}, attempt {context.attempt}"
        _log.warning("%s: %s\n  %s", named, summary, lines)

    def _schema(self, team: Team, name: str, listings: Listings) -> dict[str, Any] | None:
        """Return the tool in the format of the protocol, or None if its server does not have it."""
        spec = team.tool(name)
        if isinstance(spec, ServerTool):
            found = find_listed_tool(team, spec, listings.get(spec.server))
            return None if found is None else function_schema(name, found.description, found.input_schema)
        if isinstance(spec, ToolSpec):
            return self._function_tool(spec).schema(name, spec.description)
        if isinstance(spec, TaskTool):
            return function_schema(name, spec.description, spec.parameters)
        if name in BUILTIN_TOOLS:
            return self._builtin.schema(name)
        raise UsageError(f"no tool {name!r} in team {team.name!r}")

    def _function_tool(self, spec: ToolSpec) -> FunctionTool:
        try:
            function = self._functions.tool(spec.function)
        except NotRunnable as error:
            raise NotRunnable(f"tool {spec.name!r}: {error}", error.module) from error
        function.check_declaration(spec)
        return function


def _once(spec: ToolSpec, read: Callable[[str], Found]) -> Callable[[str], Found]:
    """Return a function that reads for the call. A failure for now ends an irreversible one, which cannot run again."""

    def found(name: str) -> Found:
        try:
            return read(name)
        except TransientError as error:
            if spec.effect != "irreversible":
                raise
            raise UsageError(f"{error}; call the tool again later") from error

    return found


def _raise_masked(error: TransientError, mask: CredentialMask) -> NoReturn:
    """Raise the error without secrets: it is logged while its call is repeated."""
    if (text := mask(str(error))) == str(error):
        raise error
    raise TransientError(text) from None


def _masked_media(media: Media, spec: ToolDeclaration | None, mask: CredentialMask) -> Media:
    """Return the file without secrets in its name and its type; one of a server also without them in its bytes.

    The name of an artifact has no asterisks.
    """
    name, mime_type = mask(media.name).replace("***", "___"), mask(media.mime_type)
    data = mask.mask_bytes(media.data) if isinstance(spec, ServerTool) else media.data
    return replace(media, name=name, mime_type=mime_type, data=data)


def _timed_out(team: Team, call: ToolCall, spec: ToolDeclaration | None, runtime_ms: int) -> ToolOutcome:
    """Return the outcome of a call that exceeded its time limit: unknown if it is irreversible, else a failure."""
    limit = 0.0 if spec is None else spec.time_limit
    server = f" of MCP server {team.mcp_servers[spec.server].location!r}" if isinstance(spec, ServerTool) else ""
    message = f"tool {call.tool_name!r}{server} did not end within its {limit:g} s"
    return ended_outcome(spec, call.id, message, runtime_ms)


def _is_named(error: Exception, names: tuple[str, ...]) -> bool:
    """Return True if the class of the exception, or one of its base classes, is named, alone or with its module."""
    kinds = type(error).__mro__
    return not {*names}.isdisjoint(
        name for kind in kinds for name in (kind.__name__, f"{kind.__module__}.{kind.__name__}")
    )


def _elapsed_ms(started_at: float) -> int:
    return round((time.monotonic() - started_at) * 1000)
