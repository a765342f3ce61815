"""comparisons: runs that continue a recorded task differently, without effects, beside the task.

POST ─► scope `operate` ─► team within the caller's budget ─► each run counts as a task ─► 202 with their ids
GET  ─► the histories of the task and of its runs ─► the comparison as it is now
"""

from typing import Annotated

from fastapi import Path, Response

from roboco.client.operator.what_if import comparison_id
from roboco.client.task import Task
from roboco.domain.recorded.run_comparison import WhatIfReport
from roboco.gateway.access import Caller
from roboco.gateway.budget import limited_team
from roboco.gateway.gateway import TheGateway
from roboco.gateway.idempotency import IdempotencyKey, NewTaskId, reporting_reuse, task_id_of_key
from roboco.gateway.principal import Scope
from roboco.gateway.rest.endpoints import Endpoints, json_response
from roboco.gateway.rest.models import CreatedComparison, NewComparison, given_options
from roboco.gateway.rest.parameters import TaskId
from roboco.gateway.rest.responses import problems
from roboco.gateway.rest.submission import chosen_team

router = Endpoints("tasks")
WhatIfId = Annotated[
    str,
    Path(
        pattern=r"^[A-Za-z0-9:_.{}-]{1,128}$",
        description="The id of the comparison.",
        examples=["whatif-3f5a81f20c6b"],
    ),
]


@router.post(
    "/tasks/{task_id}/what-if",
    status_code=202,
    response_model=CreatedComparison,
    responses=problems(404, 409),
    summary="Run a task differently",
)
async def start_what_if(
    gateway: TheGateway, caller: Caller, task_id: TaskId, body: NewComparison, key: IdempotencyKey = None
) -> Response:
    """Start runs that begin with the task's steps and get the results that its tools returned for the same arguments.

    A call without such a result runs if its tool is pure, and is refused otherwise: irreversible tools never run. With
    `Idempotency-Key` the request can be repeated safely.
    """
    caller.require(Scope.OPERATE)
    if body.prompts:
        caller.require(Scope.TEAMS)
    whole_id = caller.task_id(task_id)
    named = None if key is None else task_id_of_key(whole_id, key, "what-if").removeprefix("k_")
    what_if = comparison_id(whole_id, named)
    runs = [f"{what_if}-{number}" for number in range(1, body.runs + 1)]

    def start() -> CreatedComparison:
        task = gateway.find_task(caller, task_id)
        options = given_options(body, "team", "seq")
        team = task.team() if body.team is None else chosen_team(gateway, caller, body.team)
        limited = limited_team(caller, team)
        if body.team is not None or limited is not team:
            options["team"] = limited.model_copy(update={"what_if": None})
        with reporting_reuse(key, lambda: gateway.exists(runs[0])):
            running = task.what_if(body.seq, what_if=what_if, by=caller.by, **options)
        return CreatedComparison(what_if=running.what_if, runs=list(running.task_ids))

    new = NewTaskId(what_if, key is not None)
    return json_response(await gateway.create_task(caller, new, start, *runs), 202)


@router.read(
    "/tasks/{task_id}/what-if/{what_if}", WhatIfReport, "Compare a task with its runs", Scope.OPERATE, statuses=(404,)
)
def get_what_if(task: Task, what_if: WhatIfId) -> WhatIfReport:
    """Return route, result, tokens, cost, time and calls of the task and of each run, as they are now."""
    return task.comparison(what_if).report()
