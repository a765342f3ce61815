"""records: the history, the conversation, the explanations and the usage of a task."""

import asyncio
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response

from roboco.client.context_report import ContextReport
from roboco.client.task import Task
from roboco.client.task_explanation import TaskExplanation, explanation_of
from roboco.client.task_result import TaskResult, result_of
from roboco.client.usage_report import UsageReport, usage_report
from roboco.domain.session.agent_session import AgentSessionDelta, AgentSessionRecord
from roboco.domain.session.session import Session, SessionDelta
from roboco.domain.status import TaskStatus
from roboco.errors import CorruptHistory, TransientError
from roboco.gateway.access import Caller
from roboco.gateway.bodies.strict_json import StrictJsonRoute
from roboco.gateway.gateway import Gateway, TheGateway
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import Problem
from roboco.gateway.rest.answers import RawJson, read_task, read_whole
from roboco.gateway.rest.models import HistoryPage, PendingReport, Verification
from roboco.gateway.rest.parameters import TaskId, WaitSeconds
from roboco.gateway.rest.responses import readable

router = APIRouter(route_class=StrictJsonRoute, tags=["records"], responses=readable(404))
MAX_HISTORY_BYTES: Final = 4 * 1024 * 1024
"""Bytes of the steps of a page, unless its first step alone has more."""
FIRST_POLL: Final = 0.1
"""Seconds between the first two reads of a task's status. Each interval is longer than the one before."""
MAX_POLL: Final = 1.0
"""Seconds between two reads of a task's status, at most."""
FormParameter = Annotated[
    Literal["roboco", "roboto"],
    Query(description="The names and statuses of Roboco, or those of roboto.ai's sessions."),
]
Position = Annotated[int, Query(ge=0, le=10**9)]


@router.get("/tasks/{task_id}/history", response_model=HistoryPage, summary="Read the history")
async def get_history(
    request: Request,
    gateway: TheGateway,
    caller: Caller,
    task_id: TaskId,
    start: Position = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Return committed steps from a position on, with their digests. `next` is the `start` of the next page.

    A page has at most `limit` steps and 4 MiB, and at least one step if there is one.
    """
    caller.require(Scope.READ)
    return await read_task(request, gateway, caller, task_id, lambda task: _history_page(task, start, limit))


@router.get(
    "/tasks/{task_id}/session", response_model=Session | AgentSessionRecord, summary="Read the task as a conversation"
)
async def get_session(
    request: Request, gateway: TheGateway, caller: Caller, task_id: TaskId, form: FormParameter = "roboco"
) -> Response:
    """Return a message for each step, and one for a running turn. Its `continuation_token` is for `delta`.

    The messages have at most 4 MiB, but at least one is returned. If `more` is true, `delta` has further ones.
    """
    caller.require(Scope.READ)
    return await read_whole(
        request, gateway, caller, task_id, lambda task: task.session(form=form, max_bytes=MAX_HISTORY_BYTES)
    )


@router.get(
    "/tasks/{task_id}/delta", response_model=SessionDelta | AgentSessionDelta, summary="Read changes of a conversation"
)
async def get_delta(
    request: Request,
    gateway: TheGateway,
    caller: Caller,
    task_id: TaskId,
    token: Annotated[str, Query(max_length=200, description="The continuation_token of a session or delta.")] = "",
    form: FormParameter = "roboco",
) -> Response:
    """Return the changes since a token; without a token, all of the conversation.

    If `rewind_to` is set, first drop the messages from that index on. Then put `messages_by_idx` in their places.
    A delta has at most 4 MiB, but at least one message. If `more` is true, the next delta has further changes.
    """
    caller.require(Scope.READ)
    return await read_task(
        request, gateway, caller, task_id, lambda task: task.delta(token, form=form, max_bytes=MAX_HISTORY_BYTES)
    )


@router.get("/tasks/{task_id}/result", response_model=TaskResult, summary="Read the result")
async def get_result(
    request: Request, gateway: TheGateway, caller: Caller, task_id: TaskId, wait: WaitSeconds = 0
) -> Response:
    """Return the status, the newest text, the usage, the goals and the files of a task.

    With `wait`, the request waits until the task has ended or waits. The text of a task with the status `running` is no
    answer yet. A task that waits counts as running from the moment at which it accepts a message, or another item that
    ends its wait.
    """
    caller.require(Scope.READ)
    if wait:
        await _wait_at_rest(gateway, caller, task_id, wait)
    return await read_whole(request, gateway, caller, task_id, _result)


@router.get("/tasks/{task_id}/why", response_model=TaskExplanation, summary="Explain who acted and why")
async def explain_task(
    request: Request,
    gateway: TheGateway,
    caller: Caller,
    task_id: TaskId,
    step: Annotated[str | None, Query(max_length=80, description="The position or id of a step.")] = None,
) -> Response:
    """Return the rule and the candidates of each step, and why the task ended or waits."""
    caller.require(Scope.READ)
    return await read_whole(request, gateway, caller, task_id, lambda task: explanation_of(task, step))


@router.get("/tasks/{task_id}/context", response_model=ContextReport, summary="Show the prompt of a turn")
async def get_context(
    request: Request,
    gateway: TheGateway,
    caller: Caller,
    task_id: TaskId,
    step: Annotated[int | None, Query(ge=0, le=10**9, description="The position of an agent's step.")] = None,
) -> Response:
    """Return the steps that the prompt of a turn contained, those that it left out and why, and its tokens."""
    caller.require(Scope.READ)
    return await read_whole(request, gateway, caller, task_id, lambda task: task.context_report(step))


@router.get("/tasks/{task_id}/usage", response_model=UsageReport, summary="Show the usage")
async def get_usage(request: Request, gateway: TheGateway, caller: Caller, task_id: TaskId) -> Response:
    """Return the steps, tokens, calls, seconds and cost of the task, of each agent and of each tool, and the limits."""
    caller.require(Scope.READ)
    return await read_whole(request, gateway, caller, task_id, usage_report)


@router.get("/tasks/{task_id}/pending", response_model=PendingReport, summary="Show what the task waits for")
async def get_pending(request: Request, gateway: TheGateway, caller: Caller, task_id: TaskId) -> Response:
    """Return the calls that wait for a person or a client, and whether the task is paused at a limit."""
    caller.require_any(Scope.READ, Scope.APPROVE, Scope.CONTROL)
    return await read_task(request, gateway, caller, task_id, _pending)


@router.get("/tasks/{task_id}/verify", response_model=Verification, summary="Verify the history")
async def verify_task(request: Request, gateway: TheGateway, caller: Caller, task_id: TaskId) -> Response:
    """Compare each step with its digest and with the step before it. Cost: the whole history is read."""
    caller.require(Scope.READ)
    return await read_task(request, gateway, caller, task_id, _verification)


def _history_page(task: Task, start: int, limit: int) -> RawJson:
    """Return steps as they are stored, each on a separate line, so that a client can verify their digests."""
    lines, size, following = list[bytes](), 0, "null"
    for step in task.steps(start):
        line = step.line().encode()
        size += len(line)
        if lines and (len(lines) == limit or size > MAX_HISTORY_BYTES):
            following = str(step.seq)
            break
        lines.append(line)
    return RawJson(b'{"steps":[\n%s\n],"next":%s}' % (b",\n".join(lines), following.encode()))


def _pending(task: Task) -> dict[str, Any]:
    actions = task.pending_actions()
    return {
        "task_id": task.task_id,
        "unapproved": actions.unapproved(),
        "changes": actions.changes(),
        "unanswered": actions.unanswered(),
        "unknown": actions.unknown(),
        "at_limit": actions.at_limit(),
    }


def _verification(task: Task) -> dict[str, Any]:
    try:
        return {"intact": True, "steps": task.verify(), "unfinished_line": False}
    except CorruptHistory as error:
        return {"intact": False, "code": error.code, "message": str(error)}


def _result(task: Task) -> TaskResult:
    summary = task.summary()
    if summary.status.waiting and not task.is_at_rest(summary):
        summary = summary.model_copy(update={"status": TaskStatus.RUNNING, "reason": ""})
    return result_of(summary, task.history())


async def _wait_at_rest(gateway: Gateway, caller: Principal, task_id: str, seconds: float) -> None:
    """Wait until the task has ended or stays in a wait, at most this long. Cost: two reads in each interval.

    A read that fails counts as "not yet": the read after the wait reports a server that stays silent.
    """
    task = await gateway.task(caller, task_id)
    loop = asyncio.get_running_loop()
    deadline, interval = loop.time() + seconds, FIRST_POLL
    while loop.time() < deadline and not gateway.closing.is_set():
        try:
            at_rest = await gateway.calls.reads.run(task.is_at_rest)
        except (Problem, TransientError):
            at_rest = False
        if at_rest:
            return
        await asyncio.sleep(min(interval, max(0.0, deadline - loop.time())))
        interval = min(1.5 * interval, MAX_POLL)
