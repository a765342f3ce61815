"""team_tools: teams as tools of an MCP server, and their histories and files as resources.

    tools/call TEAM ─► new task ─► progress for each agent and call ─► text and typed output
                          └─ waits for a person ─► 2026-07-28: input required, answered by the same call again
                                                   before: the result says what it waits for; `roboco_task` answers

A call whose connection breaks off stops nothing: `roboco_task` reads the task, and stops it. Nothing is stored for a
call: its state, which the client sends back, is the id of the task, and is checked like any other id.
`task_extension.py` answers with the id at once, if the client follows tasks.
"""

import asyncio
import base64
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, Final

import mcp_types as mcp
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from roboco.client.task import Task
from roboco.client.task_result import TaskResult
from roboco.client.team_details import TeamDetails, team_details
from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.part import ToolCall
from roboco.domain.ids import qualified_id
from roboco.domain.stream.event import AgentSelected
from roboco.domain.stream.item import StreamItem, ToolCallItem
from roboco.errors import RobocoError, UsageError
from roboco.gateway.gateway import Gateway
from roboco.gateway.idempotency import MAX_KEY_CHARS, NewTaskId, are_answered, task_id_of_key
from roboco.gateway.openai.ids import shown_task_id
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import Problem, not_found, problem_of
from roboco.gateway.teams import team_of_new_task, usable_teams

Context = ServerRequestContext[Any, Any]
FindCaller = Callable[[Context], Awaitable[Principal]]
TASK_TOOL: Final = "roboco_task"
KEY_META: Final = "roboco/idempotency-key"
"""The member of a call's `_meta` by which a call that is sent again finds its task."""
MAX_RESOURCE_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a resource that is read at once."""
_PAGE: Final = 100
_RESPONSE: Final[TypeAdapter[mcp.InputResponse]] = TypeAdapter(mcp.InputResponse)
_RESULT: Final = {
    "type": "object",
    "properties": {
        "task_id": {"type": "string"},
        "status": {"type": "string"},
        "reason": {"type": "string"},
        "text": {"type": "string", "description": "The answer of the team."},
        "output": {"description": "The typed output of the agent that wrote the text, if it has one."},
        "waits_for": {"type": "array", "items": {"type": "object"}, "description": "Calls that wait for a person."},
    },
    "required": ["task_id", "status", "text"],
}
_ACTIONS: Final = ("status", "wait", "approve", "deny", "answer", "stop")
_TASK_INPUT: Final = {
    "type": "object",
    "properties": {
        "task_id": {"type": "string"},
        "action": {"enum": list(_ACTIONS)},
        "call_id": {"type": "string", "description": "The call, for approve, deny and answer."},
        "reason": {"type": "string"},
        "result": {"description": "The result of a call, for answer."},
    },
    "required": ["task_id", "action"],
}
_DECISION: Final = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Approve the call"}, "reason": {"type": "string"}},
    "required": ["approve"],
}


def _team_tool(team: TeamDetails) -> mcp.Tool:
    """Return the tool of a team. Its context has the values that the team's prompts use."""
    context = team.context_schema | {"description": "Values for the templates of the team's prompts."}
    properties = {"prompt": {"type": "string", "description": "The message for the team."}, "context": context}
    required = ["prompt", "context"] if context.get("required") else ["prompt"]
    return mcp.Tool(
        name=team.name,
        description=team.description or f"Runs the team {team.name}: {', '.join(one.name for one in team.agents)}.",
        input_schema={"type": "object", "properties": properties, "required": required},
        output_schema=_RESULT,
    )


class TeamTools:
    """The requests of MCP clients. `find_caller` returns the caller of a request."""

    def __init__(self, gateway: Gateway, find_caller: FindCaller) -> None:
        self.gateway = gateway
        self._find_caller = find_caller

    def server(self, version: str) -> Server[Any]:
        """Return the MCP server."""
        return Server(
            "roboco",
            version=version,
            instructions=f"Each tool is a team of agents. {TASK_TOOL} reads, continues and stops its tasks.",
            on_list_tools=self._list_tools,
            on_call_tool=self.call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )

    async def _list_tools(self, ctx: Context, _: mcp.PaginatedRequestParams | None) -> mcp.ListToolsResult:
        caller = await self.caller(ctx, Scope.READ)
        with errors_of_requests():
            tools = await self.gateway.calls.reads.run(
                lambda: [_team_tool(team_details(*one)) for one in usable_teams(self.gateway, caller)]
            )
        about = "Reads, waits for, decides, answers or stops a task that a team's tool has begun."
        own = mcp.Tool(name=TASK_TOOL, description=about, input_schema=_TASK_INPUT, output_schema=_RESULT)
        return mcp.ListToolsResult(tools=[*tools, own])

    async def call_tool(
        self, ctx: Context, params: mcp.CallToolRequestParams
    ) -> mcp.CallToolResult | mcp.InputRequiredResult:
        try:
            caller = await self.caller(ctx, Scope.READ)
            async with self.gateway.limits.open_stream(caller):
                if params.name != TASK_TOOL:
                    return await self._answer(ctx, caller, await self.begin(caller, params))
                given = params.arguments or {}
                task = await self._act(caller, given)
                if given.get("action") == "status":
                    return await self.gateway.calls.reads.run(_status, caller, task)
                answer = await self._answer(ctx, caller, task)
                if given.get("action") == "stop" and isinstance(answer, mcp.CallToolResult):
                    answer.is_error = False  # the action has succeeded
                return answer
        except (Problem, RobocoError) as error:
            return error_result(error)

    async def begin(self, caller: Principal, params: mcp.CallToolRequestParams) -> Task:
        """Return the task of a call: a new one, one that it continues, or that of the same call before its answers."""
        gateway, given = self.gateway, params.arguments or {}
        if params.request_state is not None:
            with errors_of_requests():
                caller.require(Scope.APPROVE)
                task = await gateway.task(caller, params.request_state)
            await self.decide(caller, task, params.input_responses or {})
            return task
        prompt, context = given.get("prompt"), given.get("context")
        if not isinstance(prompt, str) or not isinstance(context or {}, dict):
            raise UsageError("send a text `prompt`, and `context` as an object or not at all")
        caller.require(Scope.SUBMIT)
        key = (params.meta or {}).get(KEY_META)
        if key is not None and not (isinstance(key, str) and 0 < len(key) <= MAX_KEY_CHARS):
            raise UsageError(f"{KEY_META} must be a text of 1 to {MAX_KEY_CHARS} characters")
        named = f"mcp_{uuid.uuid4().hex}" if key is None else task_id_of_key(caller.tenant or "", key, "mcp")
        new = NewTaskId(qualified_id(caller.tenant, named), repeatable=key is not None)

        def submit() -> Task:
            team = team_of_new_task(gateway, caller, new, params.name)
            return gateway.orchestrator.run(
                team, prompt, context=context or {}, task_id=new.task_id, tenant=caller.tenant, by=caller.by
            )

        return await gateway.create_task(caller, new, submit)

    async def decide(self, caller: Principal, task: Task, responses: Mapping[str, Any]) -> None:
        """Bring the responses to the calls that wait for a decision. The others are ignored."""
        for call in await self.gateway.calls.reads.run(lambda: task.pending_actions().unapproved()):
            if call.id not in responses:
                continue
            response = _RESPONSE.validate_python(responses[call.id])
            accepted = isinstance(response, mcp.ElicitResult) and response.action == "accept"
            said = (response.content or {}) if isinstance(response, mcp.ElicitResult) else {}
            decide = task.approve if accepted and said.get("approve") is True else task.deny
            reason = str(said.get("reason") or "")
            await self.gateway.calls.controls.run(decide, call.id, reason=reason, by=caller.by)

    async def _act(self, caller: Principal, given: dict[str, Any]) -> Task:
        """Carry out the action of `roboco_task`, and return its task."""
        task = await self.gateway.task(caller, str(given.get("task_id")))
        controls, call_id = self.gateway.calls.controls, str(given.get("call_id"))
        match given.get("action"):
            case "status" | "wait":
                pass
            case "approve" | "deny" as action:
                caller.require(Scope.APPROVE)
                decide = task.approve if action == "approve" else task.deny
                await controls.run(decide, call_id, reason=str(given.get("reason") or ""), by=caller.by)
            case "answer":
                caller.require(Scope.CONTROL)
                await self.gateway.admit_message(caller, lambda: are_answered(task, [call_id]))
                await controls.run(task.answer, call_id, given.get("result"), by=caller.by)
            case "stop":
                caller.require(Scope.CONTROL)
                await controls.run(task.stop, str(given.get("reason") or "stopped by an MCP client"), by=caller.by)
            case other:
                raise UsageError(f"action {other!r} is none of {', '.join(_ACTIONS)}")
        return task

    async def _answer(
        self, ctx: Context, caller: Principal, task: Task
    ) -> mcp.CallToolResult | mcp.InputRequiredResult:
        """Follow the task with progress until it waits or has ended. Return its answer, or what it waits for."""
        progress = await self._until_exit(caller, task, self._follow(ctx, task))
        result = await task.aresult()
        pending = await self.gateway.calls.reads.run(task.pending_actions)
        unapproved = await self.gateway.calls.reads.run(pending.unapproved)
        shown = shown_task_id(caller, task.task_id)
        if unapproved and shows_forms(ctx):
            return mcp.InputRequiredResult(
                input_requests={call.id: approval_form(call) for call in unapproved}, request_state=shown
            )
        await ctx.session.report_progress(progress + 1, None, str(result.status))
        return result_of_call(shown, result, unapproved)

    async def _until_exit(self, caller: Principal, task: Task, work: Coroutine[Any, Any, int]) -> int:
        """Return the result of the work. Raise Problem at the exit of this process: the task goes on."""
        working, exits = asyncio.ensure_future(work), asyncio.ensure_future(self.gateway.closing.wait())
        try:
            await asyncio.wait((working, exits), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            detail = f"this gateway exits; task {shown_task_id(caller, task.task_id)} goes on"
            raise Problem(503, "unavailable", detail, f"wait for it with {TASK_TOOL}")
        finally:
            working.cancel()
            exits.cancel()

    async def _follow(self, ctx: Context, task: Task) -> int:
        """Report the progress of the task until it waits or has ended. Return the number of reports."""
        progress = 0
        async with aclosing(task.astream()) as items:
            async for item in items:
                if (message := _progress(item)) is not None:
                    progress += 1
                    await ctx.session.report_progress(progress, None, message)
                waits = item.type == "event_status" and item.data.status.waiting
                if waits and await self.gateway.calls.reads.run(task.is_at_rest):
                    break
        return progress

    async def _list_resources(self, ctx: Context, params: mcp.PaginatedRequestParams | None) -> mcp.ListResourcesResult:
        caller = await self.caller(ctx, Scope.READ)
        cursor = (params.cursor if params is not None else None) or ""
        with errors_of_requests():
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

    async def _list_templates(
        self, ctx: Context, _: mcp.PaginatedRequestParams | None
    ) -> mcp.ListResourceTemplatesResult:
        await self.caller(ctx, Scope.READ)
        history = mcp.ResourceTemplate(uri_template="roboco://{task_id}/history", name="history")
        files = mcp.ResourceTemplate(uri_template="roboco://{task_id}/files/{name}", name="file")
        return mcp.ListResourceTemplatesResult(resource_templates=[history, files])

    async def _read_resource(self, ctx: Context, params: mcp.ReadResourceRequestParams) -> mcp.ReadResourceResult:
        caller = await self.caller(ctx, Scope.READ)
        uri = str(params.uri)
        task_id, _, place = uri.removeprefix("roboco://").partition("/")
        with errors_of_requests({"uri": uri}):
            task = await self.gateway.task(caller, task_id)
            if place == "history":
                text = await self.gateway.calls.histories.run(_history, task)
                return mcp.ReadResourceResult(contents=[mcp.TextResourceContents(uri=uri, text=text)])
            if place.startswith("files/"):
                data = await self.gateway.calls.files.run(_file, task, place.removeprefix("files/"))
                blob = base64.b64encode(data).decode()
                return mcp.ReadResourceResult(contents=[mcp.BlobResourceContents(uri=uri, blob=blob)])
            raise not_found(f"no resource {uri[:200]!r}", "use roboco://TASK/history or /files/NAME")

    async def caller(self, ctx: Context, scope: Scope) -> Principal:
        with errors_of_requests():
            caller = await self._find_caller(ctx)
            caller.require(scope)
        return caller


@contextmanager
def errors_of_requests(data: Mapping[str, str] | None = None) -> Iterator[None]:
    """Raise MCPError, with the data, for an error of the block."""
    try:
        yield
    except (Problem, RobocoError) as error:
        raise MCPError(mcp.INVALID_PARAMS, _error_text(error), data) from None


def _error_text(error: Problem | RobocoError) -> str:
    """Return what is wrong, without addresses of servers, and the remedy."""
    problem = problem_of(error)
    return f"{problem.detail} ({problem.remedy})" if problem.remedy else problem.detail


def shows_forms(ctx: Context) -> bool:
    """Return True if the client says that it shows forms, by which its user decides on calls."""
    named = ctx.session.client_capabilities
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and named is not None and named.elicitation is not None


def error_result(error: Problem | RobocoError) -> mcp.CallToolResult:
    """Return the result of a call that was refused."""
    return mcp.CallToolResult(content=[mcp.TextContent(text=_error_text(error))], is_error=True)


def approval_form(call: ToolCall) -> mcp.ElicitRequest:
    """Return the form by which a person decides on a call."""
    message = f"{call.tool_name}({canonical_json(call.args)[:2000]}) needs an approval."
    return mcp.ElicitRequest(params=mcp.ElicitRequestFormParams(message=message, requested_schema=_DECISION))


def result_of_call(task_id: str, result: TaskResult, unapproved: list[ToolCall]) -> mcp.CallToolResult:
    """Return the result of a team's tool: the task, as it waits or has ended."""
    waits = [{"call_id": call.id, "tool": call.tool_name, "args": call.args} for call in unapproved]
    structured = {
        "task_id": task_id,
        "status": str(result.status),
        "reason": result.reason,
        "text": result.text,
        "output": result.output,
        **({"waits_for": waits} if waits else {}),
    }
    failed = result.status in ("failed", "goals_failed", "cancelled") or result.turn_failed
    text = f"{result.status}: {result.reason}" if failed else result.text
    if waits:
        text = f"The task {task_id} waits for an approval: decide it with {TASK_TOOL}, action approve or deny."
    content: list[Any] = [mcp.TextContent(text=text or f"The task {task_id} is {result.status}.")]
    return mcp.CallToolResult(content=content, structured_content=structured, is_error=failed)


def _status(caller: Principal, task: Task) -> mcp.CallToolResult:
    summary = task.summary()
    shown = shown_task_id(caller, task.task_id)
    structured = {"task_id": shown, "status": str(summary.status), "reason": summary.reason, "text": ""}
    text = f"{summary.status}: {summary.reason}" if summary.reason else str(summary.status)
    return mcp.CallToolResult(content=[mcp.TextContent(text=text)], structured_content=structured)


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
