"""tasks: create, list, show, fork and retry tasks."""

from collections.abc import Callable
from typing import Annotated, Any, Final

from fastapi import Query, Response

from roboco.client.task import Task
from roboco.domain.ids import retry_id, tenant_of
from roboco.domain.task_filter import STATUS_NAMES
from roboco.domain.task_summary import TaskSummary
from roboco.gateway.access import Caller
from roboco.gateway.budget import check_within_budget
from roboco.gateway.gateway import Gateway, TheGateway
from roboco.gateway.idempotency import IdempotencyKey, NewTaskId, new_task_id, reporting_reuse
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.rest.endpoints import Endpoints, json_response
from roboco.gateway.rest.models import CreatedTask, ForkTask, NewTask, TaskList, TaskRetry, TenantName
from roboco.gateway.rest.parameters import ListedTeam, TaskId, listed_teams, listed_tenant, listed_time
from roboco.gateway.rest.responses import problems
from roboco.gateway.rest.submission import create_task as submit_task
from roboco.gateway.rest.submission import fork_options

router = Endpoints("tasks")
Time = Annotated[
    str | None,
    Query(max_length=64, description="A time in ISO 8601, or a duration before now: 30m, 2h, 1d.", examples=["1d"]),
]
_CREATED: Final = {
    200: {"description": "The same request was made before: this is its task.", "model": CreatedTask},
    201: {"headers": {"Location": {"description": "The address of the task.", "schema": {"type": "string"}}}},
}
_CREATES: Final[dict[str, Any]] = {
    "status_code": 201,
    "response_model": CreatedTask,
    "responses": _CREATED | problems(404, 409),
}


@router.post("/tasks", summary="Create a task", **_CREATES)
async def create_task(gateway: TheGateway, caller: Caller, body: NewTask, key: IdempotencyKey = None) -> Response:
    """Submit a task. Once this returns, workers finish it.

    With `Idempotency-Key` or `task_id` the request can be repeated safely: the repetition returns the same task with
    status 200. The same key with another body is refused with 422, the same `task_id` with 409. After 503 without
    either of them, the task may exist.
    """
    caller.require(Scope.SUBMIT)
    new = new_task_id(caller.tenant or body.tenant, body.task_id, key)
    return await _created(gateway, caller, new, key, lambda: submit_task(gateway, caller, body, new))


@router.read("/tasks", TaskList, "List tasks")
def list_tasks(  # noqa: PLR0913 - one parameter for each condition
    gateway: Gateway,
    caller: Principal,
    status: Annotated[
        list[str] | None, Query(max_length=20, description=f"Statuses or groups: {', '.join(STATUS_NAMES)}.")
    ] = None,
    team: Annotated[list[ListedTeam] | None, Query(max_length=20, description="Names of teams.")] = None,
    since: Time = None,
    until: Time = None,
    text: Annotated[str | None, Query(max_length=200, description="A part of the title.")] = None,
    what_if: Annotated[
        bool | None, Query(description="True for runs of what-if alone, false to leave them out.")
    ] = None,
    tenant: Annotated[TenantName | None, Query(description="A tenant, for a key of all tenants.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    cursor: Annotated[str, Query(max_length=200, description="The cursor of the page before.")] = "",
) -> object:
    """Return a page of the tasks that meet all conditions, the latest change of a status first.

    A page may be short, or even empty, and have a cursor. A task that changes meanwhile moves to the front.
    """
    found = gateway.orchestrator.task_page(
        limit=limit,
        cursor=cursor,
        status=status,
        tenant=listed_tenant(caller, tenant),
        team=listed_teams(caller, team),
        since=listed_time(since),
        until=listed_time(until),
        text=text,
        what_if=what_if,
    )
    return {"tasks": found.entries, "cursor": found.cursor, "complete": found.complete}


@router.read("/tasks/{task_id}", TaskSummary, "Show a task", statuses=(404,))
def get_task(task: Task) -> TaskSummary:
    """Return the status, usage and times of a task."""
    return task.summary()


@router.post("/tasks/{task_id}/fork", summary="Fork a task", **_CREATES)
async def fork_task(
    gateway: TheGateway, caller: Caller, task_id: TaskId, body: ForkTask, key: IdempotencyKey = None
) -> Response:
    """Create a task with the first steps of this one, and let it continue with a message, team or model.

    This task stays as it is. Tool calls of the copied steps are not run again.
    """
    caller.require(Scope.CONTROL)
    source_tenant = tenant_of(caller.task_id(task_id)) or None
    new = new_task_id(source_tenant, body.task_id, key, "fork", task_id.rpartition(":")[2])

    def fork() -> CreatedTask:
        source = gateway.find_task(caller, task_id)
        team = source.team()
        options = fork_options(gateway, caller, team, body)
        created = source.fork(task_id=new.task_id, by=caller.by, **options)
        name = options["team"].name if "team" in options else team.name
        return CreatedTask(task_id=created.task_id, team=name, created=created.created)

    return await _created(gateway, caller, new, key, fork)


@router.post("/tasks/{task_id}/retry", summary="Retry a failed task", **_CREATES)
async def retry_task(gateway: TheGateway, caller: Caller, task_id: TaskId, body: TaskRetry | None = None) -> Response:
    """Continue a failed task in a new one, from its last good step. The failed task names the new one in `retried_as`.

    Tool calls keep their results. Webhooks and callbacks hear of the new task. A task is retried once: the same request
    again returns the same task with status 200, and one with another reason or other limits is refused with 409. So is
    a task that has not failed or would reach a limit again. If the failure is not complete after some seconds, the
    answer is 503: send the retry again.
    """
    caller.require(Scope.CONTROL)
    request = body or TaskRetry()
    limits: dict[str, Any] = request.limits.overrides()
    if limits:
        check_within_budget(caller, request.limits)

    def new_id() -> NewTaskId:
        failed = gateway.find_task(caller, task_id).stored_summary()
        return NewTaskId(retry_id(failed.task_id, failed.steps), repeatable=True)

    def retry() -> CreatedTask:
        task = gateway.find_task(caller, task_id)
        created = task.retry(request.reason, by=caller.by, from_step=request.from_step, **limits)
        return CreatedTask(task_id=created.task_id, team=task.team().name, created=created.created)

    return await _created(gateway, caller, await gateway.calls.reads.run(new_id), None, retry)


async def _created(
    gateway: Gateway, caller: Principal, new: NewTaskId, key: str | None, create: Callable[[], CreatedTask]
) -> Response:
    """Create a task, and return 201 with its address, or 200 if an earlier request has created it."""

    def created() -> CreatedTask:
        with reporting_reuse(key, lambda: gateway.exists(new.task_id)):
            return create()

    task = await gateway.create_task(caller, new, created)
    return json_response(task, 201 if task.created else 200, f"/v1/tasks/{task.task_id}")
