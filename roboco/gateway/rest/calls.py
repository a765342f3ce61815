"""calls: decisions of people, and answers of clients, on tool calls. A call has one answer: its id is the item's id.

The result of a client tool is refused once its caller has used its day, as a message is. A decision is not: the usage
is that of the task's creator, and a person who decides may be another caller.
"""

from collections.abc import Callable

from fastapi import APIRouter, Response

from roboco.client.task import Task
from roboco.gateway.access import Caller
from roboco.gateway.bodies.strict_json import StrictJsonRoute
from roboco.gateway.gateway import Gateway, TheGateway
from roboco.gateway.idempotency import IdempotencyKey, are_answered, chosen_item_id, is_stored, reporting_reuse
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.rest.answers import as_json, change_task
from roboco.gateway.rest.models import AnswerRequest, ApprovalRequest, CallDecision, DenialRequest, ResolutionRequest
from roboco.gateway.rest.parameters import CallId, TaskId
from roboco.gateway.rest.responses import problems

router = APIRouter(route_class=StrictJsonRoute, tags=["calls"], responses=problems(404, 409, 413))


@router.post("/tasks/{task_id}/calls/{call_id}/approve", response_model=CallDecision, summary="Approve a tool call")
async def approve_call(
    gateway: TheGateway, caller: Caller, task_id: TaskId, call_id: CallId, body: ApprovalRequest | None = None
) -> Response:
    """Approve a call that needs it, with its own or with other arguments. The first decision on a call counts."""
    caller.require(Scope.APPROVE)
    given = body or ApprovalRequest()

    def approve(task: Task) -> None:
        task.approve(call_id, given.args, given.reason, by=caller.by)

    return await _decided(gateway, caller, (task_id, call_id, "approved"), approve)


@router.post("/tasks/{task_id}/calls/{call_id}/deny", response_model=CallDecision, summary="Deny a tool call")
async def deny_call(
    gateway: TheGateway, caller: Caller, task_id: TaskId, call_id: CallId, body: DenialRequest | None = None
) -> Response:
    """Deny a call that needs approval. Its agent reads the reason, and continues."""
    caller.require(Scope.APPROVE)
    reason = "" if body is None else body.reason
    return await _decided(
        gateway, caller, (task_id, call_id, "denied"), lambda task: task.deny(call_id, reason, by=caller.by)
    )


@router.post("/tasks/{task_id}/calls/{call_id}/answer", response_model=CallDecision, summary="Answer a client tool")
async def answer_call(
    gateway: TheGateway, caller: Caller, task_id: TaskId, call_id: CallId, body: AnswerRequest
) -> Response:
    """Submit the result of a call of a client tool. The same answer again has no effect, another one is refused."""
    caller.require(Scope.CONTROL)
    await gateway.admit_message(caller, lambda: are_answered(gateway.find_task(caller, task_id), [call_id]))

    def answer(task: Task) -> None:
        task.answer(
            call_id, body.result, status=body.status, error=body.error, runtime_ms=body.runtime_ms, by=caller.by
        )

    return await _decided(gateway, caller, (task_id, call_id, "answered"), answer)


@router.post("/tasks/{task_id}/calls/{call_id}/resolve", response_model=CallDecision, summary="Resolve a tool call")
async def resolve_call(
    gateway: TheGateway,
    caller: Caller,
    task_id: TaskId,
    call_id: CallId,
    body: ResolutionRequest,
    key: IdempotencyKey = None,
) -> Response:
    """Decide whether a call with an unknown outcome had its effect, and with which result."""
    caller.require(Scope.APPROVE)
    item_id = chosen_item_id(body.item_id, key, task_id, f"resolve {call_id}")

    def resolve(task: Task) -> None:
        with reporting_reuse(key, lambda: item_id is not None and is_stored(task, item_id)):
            task.resolve(call_id, body.happened, body.result, item_id, by=caller.by)

    return await _decided(gateway, caller, (task_id, call_id, "resolved"), resolve)


async def _decided(
    gateway: Gateway, caller: Principal, decision: tuple[str, str, str], decide: Callable[[Task], None]
) -> Response:
    """Send the decision. Return the call and its status, as the commands print them."""
    task_id, call_id, status = decision

    def change(task: Task) -> str:
        decide(task)
        return task.task_id

    whole_id = await change_task(gateway, caller, task_id, change)
    return Response(as_json({"task_id": whole_id, "call_id": call_id, "status": status}), media_type="application/json")
