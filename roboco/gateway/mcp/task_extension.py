"""task_extension: calls of teams as tasks of MCP, by its extension `io.modelcontextprotocol/tasks`.

    tools/call    ─► new task ─► its id, if the client names the extension; else `team_tools.py` answers
    tasks/get     ─► working, with the number of steps; input required, with a form for each approval;
                     completed, with the result of the call; cancelled
    tasks/update  ─► decisions: one that is unknown or repeated has no effect
    tasks/cancel  ─► stop

Nothing is stored for it: the id of a task of MCP is that of the task, and any gateway process answers.
"""

from datetime import datetime
from importlib.metadata import version
from typing import Any, Final

import mcp_types as mcp
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field, ValidationError

from roboco.client.task import Task
from roboco.domain.task_summary import TaskSummary
from roboco.errors import RobocoError
from roboco.gateway.answers.following import unapproved_in_sub_tasks
from roboco.gateway.gateway import Gateway
from roboco.gateway.mcp.team_tools import (
    TASK_TOOL,
    Context,
    FindCaller,
    TeamTools,
    approval_form,
    audited,
    error_result,
    list_templates,
    note_accepted,
    result_now,
    shows_forms,
)
from roboco.gateway.openai.ids import shown_task_id
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import Problem

EXTENSION: Final = "io.modelcontextprotocol/tasks"
_POLL_MILLISECONDS: Final = 1000


def mcp_server(gateway: Gateway, find_caller: FindCaller) -> Server[Any]:
    """Return the MCP server. `find_caller` returns the caller of a request."""
    tools = TeamTools(gateway, find_caller)
    server: Server[Any] = Server(
        "roboco",
        version=version("roboco"),
        instructions=f"Each tool is a team of agents. {TASK_TOOL} reads, continues and stops its tasks.",
        on_list_tools=tools.list_tools,
        on_list_resources=tools.list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=tools.read_resource,
    )
    server.middleware.append(audited)
    extension = TaskExtension(tools)
    server.extensions[EXTENSION] = {}
    server.add_request_handler("tools/call", mcp.CallToolRequestParams, extension.call)
    server.add_request_handler("tasks/get", _TaskParams, extension.get)
    server.add_request_handler("tasks/update", _UpdateParams, extension.update)
    server.add_request_handler("tasks/cancel", _TaskParams, extension.cancel)
    return server


class _TaskParams(mcp.RequestParams):
    task_id: str = Field(alias="taskId", max_length=255)


class _UpdateParams(_TaskParams):
    input_responses: dict[str, Any] = Field(alias="inputResponses", max_length=1000)


class TaskExtension:
    """The requests of clients that follow tasks."""

    def __init__(self, tools: TeamTools) -> None:
        self._tools = tools
        self._calls = tools.gateway.calls

    async def call(self, ctx: Context, params: mcp.CallToolRequestParams) -> mcp.Result | dict[str, Any]:
        """Return the new task of a client that follows tasks, or the answer of the tool."""
        if params.name == TASK_TOOL or not _is_named(ctx):
            return await self._tools.call_tool(ctx, params)
        try:
            caller = await self._tools.caller(ctx, Scope.READ)
            task = await self._tools.begin(caller, params)
            note_accepted(ctx)
            summary = await self._calls.reads.run(task.summary)
        except (Problem, RobocoError, ValidationError) as error:
            return error_result(error)
        return {"resultType": "task", **_fields(caller, summary), "status": "working"}

    async def get(self, ctx: Context, params: _TaskParams) -> dict[str, Any]:
        """Return a task with what it waits for, or its result."""
        caller, task = await self._task(ctx, params, Scope.READ)
        return await self._calls.histories.run(_detailed, caller, task, shows_forms(ctx))

    async def update(self, ctx: Context, params: _UpdateParams) -> dict[str, Any]:
        """Bring decisions to a task."""
        caller, task = await self._task(ctx, params, Scope.APPROVE)
        await self._tools.decide(caller, task, params.input_responses)
        return {}

    async def cancel(self, ctx: Context, params: _TaskParams) -> dict[str, Any]:
        """Stop a task."""
        caller, task = await self._task(ctx, params, Scope.CONTROL)
        await self._calls.controls.run(task.stop, "stopped by an MCP client", by=caller.by)
        return {}

    async def _task(self, ctx: Context, params: _TaskParams, scope: Scope) -> tuple[Principal, Task]:
        """Return the caller and its task. Raise MCPError if the request is none of this extension."""
        if not _is_named(ctx):
            needed: Any = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            raise MCPError(mcp.MISSING_REQUIRED_CLIENT_CAPABILITY, f"the client does not name {EXTENSION}", needed)
        header = None if ctx.request is None else ctx.request.headers.get(MCP_NAME_HEADER)
        if header is not None and decode_header_value(header) != params.task_id:
            raise MCPError(mcp.HEADER_MISMATCH, f"{MCP_NAME_HEADER} is not the taskId of the body")
        caller = await self._tools.caller(ctx, scope)
        return caller, await self._tools.gateway.task(caller, params.task_id)


def _is_named(ctx: Context) -> bool:
    """Return True if the client names the extension, which is new in 2026-07-28."""
    named = ctx.session.client_capabilities
    is_new = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    return is_new and named is not None and EXTENSION in (named.extensions or {})


def _detailed(caller: Principal, task: Task, by_form: bool) -> dict[str, Any]:
    """Return the task with what it waits for, or its result. Cost: its history, once it has ended or waits."""
    summary = task.settled_summary()
    fields = _fields(caller, summary)
    if task.is_at_rest(summary):
        asked = task.pending_actions().unapproved()
    else:
        asked = [one.call for one in unapproved_in_sub_tasks(task, task.task_id)]
        if not asked:
            return {**fields, "status": "working", "statusMessage": f"{summary.steps} steps"}
    if asked and by_form:
        forms = {call.id: approval_form(call).model_dump(by_alias=True, exclude_none=True) for call in asked}
        return {**fields, "status": "input_required", "inputRequests": forms}
    if summary.status == "cancelled":
        return {**fields, "status": "cancelled", "statusMessage": summary.reason}
    result = result_now(caller, task)
    return {**fields, "status": "completed", "result": result.model_dump(by_alias=True, exclude_none=True)}


def _fields(caller: Principal, summary: TaskSummary) -> dict[str, Any]:
    def time(value: datetime) -> str:
        return value.isoformat().replace("+00:00", "Z")

    return {
        "taskId": shown_task_id(caller, summary.task_id),
        "createdAt": time(summary.created_at),
        "lastUpdatedAt": time(summary.updated_at),
        "ttlMs": None,
        "pollIntervalMs": _POLL_MILLISECONDS,
    }
