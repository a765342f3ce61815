"""team_tools: teams as tools of an MCP server, and their histories and files as resources.

    tools/call TEAM ─► new task ─► progress for each agent and call ─► text and typed output
                          └─ waits for a person ─► 2026-07-28: input required, answered by the same call again
                                                   before: the result says what it waits for; `roboco_task` answers

A call whose connection breaks off stops nothing: `roboco_task` reads the task, and stops it. Nothing is stored for a
call: its state, which the client sends back, is the id of the task, and is checked like any other id.
`task_extension.py` answers with the id at once, if the client follows tasks.
"""

import base64
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, Literal

import mcp_types as mcp
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.elicitation import render_elicitation_schema
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, Field, ValidationError

from roboco.client.task import Task
from roboco.client.task_result import TaskResult, result_of
from roboco.client.team_details import TeamDetails, team_details
from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.part import ToolCall
from roboco.domain.stream.event import AgentSelected
from roboco.domain.stream.item import StreamItem, ToolCallItem
from roboco.errors import RobocoError, UsageError
from roboco.gateway.answers.following import asked_in_sub_tasks
from roboco.gateway.closing import racing
from roboco.gateway.gateway import Gateway
from roboco.gateway.idempotency import MAX_KEY_CHARS, are_answered, new_task_id
from roboco.gateway.openai.ids import shown_task_id
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import Problem, not_found, problem_of
from roboco.gateway.request_log import CREATED, MAX_PATH, log_task_control
from roboco.gateway.teams import team_of_new_task, usable_teams

Context = ServerRequestContext[Any, Any]
FindCaller = Callable[[Context], Awaitable[Principal]]
TASK_TOOL: Final = "roboco_task"
KEY_META: Final = "roboco/idempotency-key"
"""The member of a call's `_meta` by which a call that is sent again finds its task."""
MAX_RESOURCE_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a resource that is read at once."""
_ACCEPTED: Final = "roboco.mcp_accepted"
_WRITES: Final = ("tools/call", "tasks/update", "tasks/cancel")
MAX_SHOWN: Final = 2000
"""Characters of the arguments that a form shows."""
_PAGE: Final = 100


class TeamCall(BaseModel):
    """The message for the team, and values for its prompts."""

    prompt: str = Field(description="The message for the team.")
    context: dict[str, Any] | None = None


class TaskCall(BaseModel):
    """An action on a task."""

    task_id: str
    action: Literal["status", "wait", "approve", "deny", "answer", "stop"]
    call_id: str | None = Field(None, description="The call, for approve, deny and answer.")
    reason: str | None = None
    result: Any = Field(None, description="The result of a call, for answer.")


class TeamAnswer(BaseModel):
    """A task, as it waits or has ended."""

    task_id: str
    status: str
    reason: str = ""
    text: str = Field(description="The answer of the team.")
    output: Any = Field(None, description="The typed output of the agent that wrote the text, if it has one.")
    waits_for: list[dict[str, Any]] = Field([], description="Calls that wait for a person.")


class ApprovalForm(BaseModel):
    """A person's decision on a call."""

    approve: bool = Field(title="Approve the call")
    reason: str = ""


def _team_tool(team: TeamDetails) -> mcp.Tool:
    """Return the tool of a team. Its context has the values that the team's prompts use."""
    context = team.context_schema | {"description": "Values for the templates of the team's prompts."}
    schema = TeamCall.model_json_schema()
    schema["properties"]["context"] = context
    schema["required"] += ["context"] if context.get("required") else []
    return mcp.Tool(
        name=team.name,
        description=team.description or f"Runs the team {team.name}: {', '.join(one.name for one in team.agents)}.",
        input_schema=schema,
        output_schema=TeamAnswer.model_json_schema(),
    )


class TeamTools:
    """The requests of MCP clients. `find_caller` returns the caller of a request."""

    def __init__(self, gateway: Gateway, find_caller: FindCaller) -> None:
        self.gateway = gateway
        self._find_caller = find_caller

    async def caller(self, ctx: Context, scope: Scope) -> Principal:
        """Return the caller of a request. Raise Problem if it lacks the scope."""
        caller = await self._find_caller(ctx)
        caller.require(scope)
        return caller

    async def list_tools(self, ctx: Context, _: mcp.PaginatedRequestParams | None) -> mcp.ListToolsResult:
        """Return a tool for each team that the caller may use, and `roboco_task`."""
        caller = await self.caller(ctx, Scope.READ)
        tools = await self.gateway.calls.reads.run(
            lambda: [_team_tool(team_details(*one)) for one in usable_teams(self.gateway.orchestrator, caller)]
        )
        own = mcp.Tool(
            name=TASK_TOOL,
            description="Reads, waits for, decides, answers or stops a task that a team's tool has begun.",
            input_schema=TaskCall.model_json_schema(),
            output_schema=TeamAnswer.model_json_schema(),
        )
        return mcp.ListToolsResult(tools=[*tools, own])

    async def call_tool(
        self, ctx: Context, params: mcp.CallToolRequestParams
    ) -> mcp.CallToolResult | mcp.InputRequiredResult:
        """Return the answer of a tool, or what its task waits for."""
        try:
            caller = await self.caller(ctx, Scope.READ)
            async with self.gateway.limits.open_stream(caller):
                if params.name == TASK_TOOL:
                    return await self._act(ctx, caller, TaskCall.model_validate(params.arguments or {}))
                task = await self.begin(caller, params)
                note_accepted(ctx)
                return await self._answer(ctx, caller, task)
        except (Problem, RobocoError, ValidationError) as error:
            return error_result(error)

    async def begin(self, caller: Principal, params: mcp.CallToolRequestParams) -> Task:
        """Return the task of a call: a new one, one that it continues, or that of the same call before its answers."""
        gateway = self.gateway
        if params.request_state is not None:
            try:
                caller.require(Scope.APPROVE)
                task = await gateway.task(caller, params.request_state)
            except (Problem, RobocoError) as error:  # the state is no argument: this is an error of the protocol
                raise MCPError(mcp.INVALID_PARAMS, _error_text(error)) from None
            await self.decide(caller, task, params.input_responses or {})
            return task
        given = TeamCall.model_validate(params.arguments or {})
        caller.require(Scope.SUBMIT)
        key = (params.meta or {}).get(KEY_META)
        if key is not None and not (isinstance(key, str) and 0 < len(key) <= MAX_KEY_CHARS):
            raise UsageError(f"{KEY_META} must be a text of 1 to {MAX_KEY_CHARS} characters")
        new = new_task_id(caller.tenant, None, key, "mcp")

        def submit() -> Task:
            team = team_of_new_task(gateway.orchestrator, caller, new, params.name)
            return gateway.orchestrator.run(
                team, given.prompt, context=given.context or {}, task_id=new.task_id, tenant=caller.tenant, by=caller.by
            )

        return await gateway.create_task(caller, new, submit)

    async def decide(self, caller: Principal, task: Task, responses: Mapping[str, Any]) -> None:
        """Bring the responses to the calls that wait for a decision. The others are ignored."""
        calls = await self.gateway.calls.reads.run(lambda: task.pending_actions().unapproved())
        given = {call.id: mcp.ElicitResult.model_validate(responses[call.id]) for call in calls if call.id in responses}
        forms = {call_id: form for call_id, form in given.items() if form.action != "cancel"}  # that decides nothing
        for call_id, form in forms.items():
            if not isinstance((form.content or {}).get("approve", False), bool):
                raise UsageError(f"the form of call {call_id}: approve must be true or false")
        for call_id, form in forms.items():
            said = form.content or {}
            decide = task.approve if form.action == "accept" and said.get("approve") else task.deny
            reason = str(said.get("reason") or "")
            await self.gateway.calls.controls.run(decide, call_id, reason=reason, by=caller.by)

    async def _act(
        self, ctx: Context, caller: Principal, call: TaskCall
    ) -> mcp.CallToolResult | mcp.InputRequiredResult:
        """Carry out the action of `roboco_task`, and return the answer of its task."""
        task = await self.gateway.task(caller, call.task_id)
        controls, call_id = self.gateway.calls.controls, call.call_id or ""
        match call.action:
            case "status":
                answer = await self.gateway.calls.histories.run(result_now, caller, task)
                return answer.model_copy(update={"is_error": False})
            case "wait":
                pass
            case "approve" | "deny":
                caller.require(Scope.APPROVE)
                decide = task.approve if call.action == "approve" else task.deny
                await controls.run(decide, call_id, reason=call.reason or "", by=caller.by)
            case "answer":
                caller.require(Scope.CONTROL)
                await self.gateway.admit_message(caller, lambda: are_answered(task, [call_id]))
                await controls.run(task.answer, call_id, call.result, by=caller.by)
            case "stop":
                caller.require(Scope.CONTROL)
                await controls.run(task.stop, call.reason or "stopped by an MCP client", by=caller.by)
        note_accepted(ctx)
        found = await self._answer(ctx, caller, task)
        if call.action == "stop" and isinstance(found, mcp.CallToolResult):
            found.is_error = False  # the action has succeeded
        return found

    async def _answer(
        self, ctx: Context, caller: Principal, task: Task
    ) -> mcp.CallToolResult | mcp.InputRequiredResult:
        """Follow the task with progress until it waits or has ended. Return its answer, or what it waits for."""
        shown = shown_task_id(caller, task.task_id)
        async with racing(self._follow(ctx, task), self.gateway.closing.wait()) as (following, _):
            if not following.done():
                detail = f"this gateway exits; task {shown} goes on"
                raise Problem(503, "unavailable", detail, f"wait for it with {TASK_TOOL}")
            progress, result = following.result()
        unapproved = await self.gateway.calls.reads.run(lambda: task.pending_actions().unapproved())
        if unapproved and shows_forms(ctx):
            return mcp.InputRequiredResult(
                input_requests={call.id: approval_form(call) for call in unapproved}, request_state=shown
            )
        await ctx.session.report_progress(progress + 1, None, str(result.status))
        return result_of_call(shown, result, unapproved)

    async def _follow(self, ctx: Context, task: Task) -> tuple[int, TaskResult]:
        """Report the progress of the task until it waits or has ended, or a sub-task needs an approval.

        Return the number of reports, and the result.
        """
        progress, delegates = 0, False
        async with aclosing(task.astream_with_gaps()) as items:
            async for item in items:
                if item is None:
                    if delegates and await asked_in_sub_tasks(self.gateway, task, task.task_id):
                        return progress, await self.gateway.calls.histories.run(_result_now, task)
                    continue
                delegates = delegates or item.type == "event_sub_task"
                if (message := _progress(item)) is not None:
                    progress += 1
                    await ctx.session.report_progress(progress, None, message)
                waits = item.type == "event_status" and item.data.status.waiting
                if waits and await self.gateway.calls.reads.run(task.is_at_rest):
                    break
        return progress, await task.aresult()

    async def list_resources(self, ctx: Context, params: mcp.PaginatedRequestParams | None) -> mcp.ListResourcesResult:
        """Return a page of the histories of tasks, the latest change first."""
        caller = await self.caller(ctx, Scope.READ)
        cursor = (params.cursor if params is not None else None) or ""
        page = await self.gateway.calls.reads.run(
            lambda: self.gateway.orchestrator.task_page(limit=_PAGE, cursor=cursor, tenant=caller.tenant)
        )
        entries = [one for one in page.entries if caller.teams is None or one.team in caller.teams]
        resources = [
            mcp.Resource(
                uri=f"roboco://{shown_task_id(caller, one.task_id)}/history",
                name=one.title or one.task_id,
                description=f"The steps of a task of team {one.team}, one JSON object in each line.",
                mime_type="application/jsonl",
            )
            for one in entries
        ]
        return mcp.ListResourcesResult(resources=resources, next_cursor=page.cursor or None)

    async def read_resource(self, ctx: Context, params: mcp.ReadResourceRequestParams) -> mcp.ReadResourceResult:
        """Return a history, or a file."""
        caller = await self.caller(ctx, Scope.READ)
        async with self.gateway.limits.open_stream(caller):
            return await self._resource(caller, str(params.uri))

    async def _resource(self, caller: Principal, uri: str) -> mcp.ReadResourceResult:
        task_id, _, place = uri.removeprefix("roboco://").partition("/")
        task = await self.gateway.task(caller, task_id)
        if place == "history":
            text = await self.gateway.calls.histories.run(_history, task)
            return mcp.ReadResourceResult(contents=[mcp.TextResourceContents(uri=uri, text=text)])
        if place.startswith("files/"):
            data = await self.gateway.calls.files.run(_file, task, place.removeprefix("files/"))
            blob = base64.b64encode(data).decode()
            return mcp.ReadResourceResult(contents=[mcp.BlobResourceContents(uri=uri, blob=blob)])
        raise not_found(f"no resource {uri[:200]!r}", "use roboco://TASK/history or /files/NAME")


async def list_templates(_: Context, __: mcp.PaginatedRequestParams | None) -> mcp.ListResourceTemplatesResult:
    """Return the forms of the addresses of resources."""
    history = mcp.ResourceTemplate(uri_template="roboco://{task_id}/history", name="history")
    files = mcp.ResourceTemplate(uri_template="roboco://{task_id}/files/{name}", name="file")
    return mcp.ListResourceTemplatesResult(resource_templates=[history, files])


async def audited(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Serve a request, and write a line of the audit log for one that may change something.

    Raise MCPError, with the resource that the request names, for an error of a request.
    """
    try:
        result = await call_next(ctx)
        if not _is_refusal(result):
            note_accepted(ctx)
        return result
    except (Problem, RobocoError) as error:
        named = {name: value for name, value in (ctx.params or {}).items() if name == "uri"}
        raise MCPError(mcp.INVALID_PARAMS, _error_text(error), named or None) from None
    finally:
        if ctx.method in _WRITES and ctx.request is not None:
            _log_operation(ctx, ctx.request.scope)


def note_accepted(ctx: Context) -> None:
    """Note that the request has had its effect, whatever becomes of its answer."""
    if ctx.request is not None:
        ctx.request.scope[_ACCEPTED] = True


def _log_operation(ctx: Context, scope: Any) -> None:
    params = ctx.params or {}
    given = params.get("arguments")
    arguments = given if isinstance(given, dict) else {}
    task_id = params.get("taskId") or arguments.get("task_id") or params.get("requestState") or scope.get(CREATED)
    named = [ctx.method, params.get("name"), arguments.get("action") if params.get("name") == TASK_TOOL else None]
    action = " ".join(one[:MAX_PATH] for one in named if isinstance(one, str))
    outcome = "accepted" if scope.get(_ACCEPTED) else "refused"
    log_task_control(scope, action, task_id[:MAX_PATH] if isinstance(task_id, str) else None, outcome)


def _error_text(error: Problem | RobocoError | ValidationError) -> str:
    """Return what is wrong, without addresses of servers, and the remedy."""
    if isinstance(error, ValidationError):
        return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:20])
    return problem_of(error).message


def shows_forms(ctx: Context) -> bool:
    """Return True if the client says that it shows forms, by which its user decides on calls."""
    named = ctx.session.client_capabilities
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and named is not None and named.elicitation is not None


def error_result(error: Problem | RobocoError | ValidationError) -> mcp.CallToolResult:
    """Return the result of a call that was refused."""
    return mcp.CallToolResult(content=[mcp.TextContent(text=_error_text(error))], is_error=True)


def _is_refusal(result: HandlerResult) -> bool:
    """Return True if it is an error without a task. The package may have made a dictionary of it."""
    if isinstance(result, mcp.CallToolResult):
        return bool(result.is_error) and result.structured_content is None
    return isinstance(result, dict) and bool(result.get("isError")) and result.get("structuredContent") is None


def approval_form(call: ToolCall) -> mcp.ElicitRequest:
    """Return the form by which a person decides on a call."""
    args = canonical_json(call.args)
    cut = f" ... and {len(args) - MAX_SHOWN} further characters" if len(args) > MAX_SHOWN else ""
    message = f"{call.tool_name}({args[:MAX_SHOWN]}{cut}) needs an approval."
    schema = render_elicitation_schema(ApprovalForm)
    return mcp.ElicitRequest(params=mcp.ElicitRequestFormParams(message=message, requested_schema=schema))


def result_now(caller: Principal, task: Task) -> mcp.CallToolResult:
    """Return the task as it is. Cost: its history. It waits for no further step, also if the task goes on meanwhile."""
    return result_of_call(shown_task_id(caller, task.task_id), _result_now(task), task.pending_actions().unapproved())


def _result_now(task: Task) -> TaskResult:
    return result_of(task.settled_summary(), list(task.steps()))


def result_of_call(task_id: str, result: TaskResult, unapproved: list[ToolCall]) -> mcp.CallToolResult:
    """Return the result of a team's tool: the task, as it waits or has ended."""
    waits = [{"call_id": call.id, "tool": call.tool_name, "args": call.args} for call in unapproved]
    failed = result.status in ("failed", "goals_failed", "cancelled") or result.turn_failed
    if waits:
        text = f"The task {task_id} waits for an approval: decide it with {TASK_TOOL}, action approve or deny."
    elif result.status in ("completed", "user_turn") and not failed and result.text:
        text = result.text
    else:
        text = f"{result.status}: {result.reason}" if result.reason else f"The task {task_id} is {result.status}."
    structured = TeamAnswer(
        task_id=task_id,
        status=result.status,
        reason=result.reason,
        text=result.text,
        output=result.output,
        waits_for=waits,
    )
    content: list[Any] = [mcp.TextContent(text=text)]
    return mcp.CallToolResult(content=content, structured_content=structured.model_dump(), is_error=failed)


def _progress(item: StreamItem) -> str | None:
    match item.data:
        case AgentSelected(agent_name=agent):
            return f"{agent} acts"
        case ToolCallItem(agent_name=agent, part=part):
            return f"{agent} called {part.tool_call.tool_name}"
        case _:
            return None


def _history(task: Task) -> str:
    lines, size = list[str](), 0
    for step in task.steps():
        size += len(line := step.line())
        if size > MAX_RESOURCE_BYTES:
            raise UsageError(f"the history has more than {MAX_RESOURCE_BYTES} bytes: read it by HTTP, in pages")
        lines.append(line)
    return "\n".join(lines)


def _file(task: Task, name: str) -> bytes:
    if (size := task.artifact_info(name).size) > MAX_RESOURCE_BYTES:
        raise UsageError(f"the file has {size} bytes, and a resource at most {MAX_RESOURCE_BYTES}: read it by HTTP")
    return task.artifact(name)
