"""controls: messages, interruptions, stops, pauses and limits of a task, and their receipts.

request ─► item id: of the body, of Idempotency-Key, or new ─► accepted, in the workspace ─► 202 with a receipt
                                                    (503: send it again with the same id; it has one effect)
?wait=S ─► the receipt is read until the item is applied, at most S seconds; the client may leave at any time
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from roboco.client.receipt import Receipt, is_final, latest_receipt
from roboco.client.task import Task
from roboco.errors import RobocoError, UsageError
from roboco.gateway.access import Caller
from roboco.gateway.bodies.strict_json import StrictJsonRoute
from roboco.gateway.budget import check_within_budget, default_limits
from roboco.gateway.gateway import Gateway, TheGateway
from roboco.gateway.idempotency import IdempotencyKey, chosen_item_id, is_stored, reporting_reuse
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import Problem, not_found
from roboco.gateway.rest.answers import as_json, change_task, read_task
from roboco.gateway.rest.models import (
    Interruption,
    ItemRequest,
    LimitsRequest,
    NewMessage,
    StopRequest,
    given_options,
)
from roboco.gateway.rest.parameters import ItemId, TaskId, WaitSeconds
from roboco.gateway.rest.responses import problems, readable

router = APIRouter(route_class=StrictJsonRoute, tags=["controls"], responses=problems(404, 409, 413))
FIRST_POLL: Final = 0.02
"""Seconds between the first two reads of a receipt. Each interval is twice the one before."""
MAX_POLL: Final = 0.5
"""Seconds between two reads of a receipt, at most."""
Send = Callable[[Task, str | None], Receipt]
IsDone = Callable[[Task, Receipt], bool]


@router.post("/tasks/{task_id}/messages", status_code=202, response_model=Receipt, summary="Send a message")
async def send_message(
    gateway: TheGateway,
    caller: Caller,
    task_id: TaskId,
    body: NewMessage,
    key: IdempotencyKey = None,
    wait: WaitSeconds = 0,
) -> Response:
    """Add a message of the user. A task that waits for its user continues.

    While agents or tools run, the message waits for the end of the step, interrupts it, or is refused with 409.
    """
    caller.require(Scope.CONTROL)
    options = given_options(body, "message", "item_id")

    def send(task: Task, item_id: str | None) -> Receipt:
        return task.send(body.message, item_id=item_id, by=caller.by, **options)

    item_id = chosen_item_id(body.item_id, key, task_id, "messages")
    await _admit_message(gateway, caller, task_id, item_id)
    return await _sent(_Control(gateway, caller, task_id, item_id, key), send, wait)


@router.post("/tasks/{task_id}/interrupt", status_code=202, response_model=Receipt, summary="Interrupt the work")
async def interrupt_task(
    gateway: TheGateway,
    caller: Caller,
    task_id: TaskId,
    body: Interruption,
    key: IdempotencyKey = None,
    wait: WaitSeconds = 0,
) -> Response:
    """Cancel the current step: the worker closes the connection to the model, and the partial text stays.

    With a message the task continues with it. Without one it waits for its user.
    """
    caller.require(Scope.CONTROL)
    options = given_options(body, "message", "item_id")

    def interrupt(task: Task, item_id: str | None) -> Receipt:
        return task.interrupt(body.message, item_id=item_id, by=caller.by, **options)

    item_id = chosen_item_id(body.item_id, key, task_id, "interrupt")
    if body.message is not None:
        await _admit_message(gateway, caller, task_id, item_id)
    return await _sent(_Control(gateway, caller, task_id, item_id, key), interrupt, wait)


@router.post("/tasks/{task_id}/stop", status_code=202, response_model=Receipt, summary="Stop the task")
async def stop_task(
    gateway: TheGateway,
    caller: Caller,
    task_id: TaskId,
    body: StopRequest | None = None,
    key: IdempotencyKey = None,
    wait: WaitSeconds = 0,
) -> Response:
    """End the task now, as `cancelled`. A task that has ended stays as it is: then a wait returns `expired`.

    With `wait` the response is sent once the task and its result show the end, or after that time.
    """
    caller.require(Scope.CONTROL)
    request = body or StopRequest()

    def stop(task: Task, item_id: str | None) -> Receipt:
        return task.stop(request.reason, item_id, by=caller.by)

    item_id = chosen_item_id(request.item_id, key, task_id, "stop")
    return await _sent(_Control(gateway, caller, task_id, item_id, key), stop, wait, Task.has_stopped)


@router.post("/tasks/{task_id}/pause", status_code=202, response_model=Receipt, summary="Pause the task")
async def pause_task(
    gateway: TheGateway, caller: Caller, task_id: TaskId, body: ItemRequest | None = None, key: IdempotencyKey = None
) -> Response:
    """Pause the task after its current step."""
    caller.require(Scope.CONTROL)
    item_id = chosen_item_id(_item_id(body), key, task_id, "pause")
    control = _Control(gateway, caller, task_id, item_id, key)
    return await _sent(control, lambda task, item_id: task.pause(item_id, by=caller.by))


@router.post("/tasks/{task_id}/step", status_code=202, response_model=Receipt, summary="Run one step")
async def step_task(
    gateway: TheGateway, caller: Caller, task_id: TaskId, body: ItemRequest | None = None, key: IdempotencyKey = None
) -> Response:
    """Run one step, or finish the current one, and pause then."""
    caller.require(Scope.CONTROL)
    item_id = chosen_item_id(_item_id(body), key, task_id, "step")
    control = _Control(gateway, caller, task_id, item_id, key)
    return await _sent(control, lambda task, item_id: task.step(item_id, by=caller.by))


@router.post("/tasks/{task_id}/resume", status_code=202, response_model=Receipt, summary="Resume the task")
async def resume_task(
    gateway: TheGateway, caller: Caller, task_id: TaskId, body: ItemRequest | None = None, key: IdempotencyKey = None
) -> Response:
    """Resume a paused task. Any other task stays as it is."""
    caller.require(Scope.CONTROL)
    item_id = chosen_item_id(_item_id(body), key, task_id, "resume")
    control = _Control(gateway, caller, task_id, item_id, key)
    return await _sent(control, lambda task, item_id: task.resume(item_id, by=caller.by))


@router.post("/tasks/{task_id}/limits", status_code=202, response_model=Receipt, summary="Change limits")
async def set_limits(
    gateway: TheGateway,
    caller: Caller,
    task_id: TaskId,
    body: LimitsRequest,
    key: IdempotencyKey = None,
    wait: WaitSeconds = 0,
) -> Response:
    """Replace limits of the task, from its next step on. A task that is paused at a limit continues.

    A key cannot raise limits beyond its own budget.
    """
    caller.require(Scope.CONTROL)
    check_within_budget(caller, body.limits, default_limits(caller))
    limits: dict[str, Any] = body.limits.overrides()

    def change(task: Task, item_id: str | None) -> Receipt:
        return task.set_limits(item_id, by=caller.by, **limits)

    item_id = chosen_item_id(body.item_id, key, task_id, "limits")
    return await _sent(_Control(gateway, caller, task_id, item_id, key), change, wait)


@router.get(
    "/tasks/{task_id}/receipts/{item_id}", response_model=Receipt, responses=readable(404), summary="Show a receipt"
)
async def get_receipt(
    request: Request, gateway: TheGateway, caller: Caller, task_id: TaskId, item_id: ItemId
) -> Response:
    """Return when an item was accepted and applied, and how it ended a reply of a model."""
    caller.require_any(Scope.READ, Scope.CONTROL)

    def read(task: Task) -> Receipt:
        try:
            return task.receipt(item_id)
        except UsageError:
            raise not_found(f"no item {item_id!r}", "its id is in the response to its request") from None

    return await read_task(request, gateway, caller, task_id, read)


def _item_id(body: ItemRequest | None) -> str | None:
    return None if body is None else body.item_id


class _Control:
    """A request that sends an item to a task."""

    def __init__(self, gateway: Gateway, caller: Principal, task_id: str, item_id: str | None, key: str | None) -> None:
        self.gateway = gateway
        self.caller = caller
        self.task_id = task_id
        self.item_id = item_id
        self.key = key


async def _admit_message(gateway: Gateway, caller: Principal, task_id: str, item_id: str | None) -> None:
    """Raise Problem `rate_limited` if the caller has used its day, unless an item with this id is accepted already."""

    def is_accepted() -> bool:
        return item_id is not None and is_stored(gateway.find_task(caller, task_id), item_id)

    await gateway.admit_message(caller, is_accepted)


async def _sent(control: _Control, send: Send, wait: float = 0.0, is_done: IsDone | None = None) -> Response:
    """Send the item. Return 202 with its receipt, as of the end of the wait."""

    item_id = control.item_id

    def accept(task: Task) -> tuple[Task, Receipt]:
        with reporting_reuse(control.key, lambda: item_id is not None and is_stored(task, item_id)):
            return task, send(task, item_id)

    task, receipt = await change_task(control.gateway, control.caller, control.task_id, accept)
    receipt = await _applied(control.gateway, task, receipt, wait, is_done)
    headers = {"Location": f"/v1/tasks/{task.task_id}/receipts/{receipt.item_id}"}
    return Response(as_json(receipt), 202, headers, "application/json")


async def _applied(gateway: Gateway, task: Task, receipt: Receipt, seconds: float, is_done: IsDone | None) -> Receipt:
    """Return the receipt once its item has had its effect, or as it is if that takes longer.

    The item is accepted already: an error of a read ends the wait, and not the request.
    """

    def read() -> tuple[Receipt, bool]:
        now = latest_receipt(task.receipt, receipt)
        return now, is_final(now) if is_done is None else is_done(task, now)

    loop = asyncio.get_running_loop()
    deadline, interval = loop.time() + seconds, FIRST_POLL
    while loop.time() < deadline and not gateway.closing.is_set():
        try:
            receipt, done = await gateway.calls.reads.run(read)
        except (Problem, RobocoError):
            return receipt  # the store is silent or damaged
        if done:
            return receipt
        await asyncio.sleep(min(interval, max(0.0, deadline - loop.time())))
        interval = min(2 * interval, MAX_POLL)
    return receipt
