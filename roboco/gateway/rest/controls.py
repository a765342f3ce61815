"""controls: a table of what a caller sends to a task or to one of its tool calls, and receipts.

request ─► item id: of the body, of Idempotency-Key, or new ─► accepted, in the workspace ─► 202 with a receipt
                                                    (503: send it again with the same id; it has one effect)
?wait=S ─► the receipt is read until the item is applied, at most S seconds; the client may leave at any time

Each row is a method of a task, with the fields of its body as arguments. A call has one answer: its id is the item's
id. Messages, and results of client tools, are refused once their caller has used its day. Decisions on calls are not:
the usage is that of the task's creator, and a person who decides may be another caller.
"""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any, Final

from fastapi import Response
from pydantic import BaseModel

from roboco.client.receipt import Receipt, is_final, latest_receipt
from roboco.client.task import Task
from roboco.errors import RobocoError, UsageError
from roboco.gateway.access import Caller
from roboco.gateway.budget import check_within_budget
from roboco.gateway.gateway import Gateway, TheGateway
from roboco.gateway.idempotency import IdempotencyKey, are_answered, chosen_item_id, is_stored, reporting_reuse
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import Problem, not_found
from roboco.gateway.rest.endpoints import Endpoints, json_response, wait_until
from roboco.gateway.rest.models import (
    AnswerRequest,
    ApprovalRequest,
    CallDecision,
    DenialRequest,
    Interruption,
    ItemRequest,
    LimitsRequest,
    NewMessage,
    ResolutionRequest,
    StopRequest,
    given_options,
)
from roboco.gateway.rest.parameters import CallId, ItemId, TaskId, WaitSeconds
from roboco.gateway.rest.responses import problems

router = Endpoints("controls")
calls_router = Endpoints("calls")


@dataclass(frozen=True)
class Control:
    """A route that ends with `path`, and the method of a task that it calls with the fields of a `model`."""

    path: str
    model: type[BaseModel]
    method: Callable[..., Any]
    summary: str
    text: str
    name: str = ""
    """The id of the operation, by default the path with "task" or "call"."""
    needs_body: bool = False
    waits: bool = False
    """True if a request may wait for the effect."""
    is_done: Callable[[Task, Receipt], bool] = lambda _, receipt: is_final(receipt)
    decided: str = ""
    """The status of a tool call after this decision, or "" for a control of a task."""

    @property
    def has_id(self) -> bool:
        """True if its item has an id, which a body or an Idempotency-Key names."""
        return "item_id" in self.model.model_fields


SEND = """Add a message of the user. A task that waits for its user continues.

While agents or tools run, the message waits for the end of the step, interrupts it, or is refused with 409."""
INTERRUPT = """Cancel the current step: the worker closes the connection to the model, and the partial text stays.

With a message the task continues with it. Without one it waits for its user."""
STOP = """End the task now, as `cancelled`. A task that has ended stays as it is: then a wait returns `expired`.

With `wait` the response is sent once the task and its result show the end, or after that time."""
LIMITS = """Replace limits of the task, from its next step on. A task that is paused at a limit continues.

A key cannot raise limits beyond its own budget."""
STEP = "Run one step, or finish the current one, and pause then."
RESUME = "Resume a paused task. Any other task stays as it is."
APPROVE = "Approve a call that needs it, with its own or with other arguments. The first decision on a call counts."
DENY = "Deny a call that needs approval. Its agent reads the reason, and continues."
ANSWER = "Submit the result of a call of a client tool. The same answer again has no effect, another one is refused."
RESOLVE = "Decide whether a call with an unknown outcome had its effect, and with which result."
# fmt: off
CONTROLS: Final = (
    Control("messages", NewMessage, Task.send, "Send a message", SEND, "send_message", needs_body=True, waits=True),
    Control("interrupt", Interruption, Task.interrupt, "Interrupt the work", INTERRUPT, needs_body=True, waits=True),
    Control("stop", StopRequest, Task.stop, "Stop the task", STOP, waits=True, is_done=Task.has_stopped),
    Control("pause", ItemRequest, Task.pause, "Pause the task", "Pause the task after its current step."),
    Control("step", ItemRequest, Task.step, "Run one step", STEP),
    Control("resume", ItemRequest, Task.resume, "Resume the task", RESUME),
    Control("limits", LimitsRequest, Task.set_limits, "Change limits", LIMITS, "set_limits",
            needs_body=True, waits=True),
    Control("approve", ApprovalRequest, Task.approve, "Approve a tool call", APPROVE, decided="approved"),
    Control("deny", DenialRequest, Task.deny, "Deny a tool call", DENY, decided="denied"),
    Control("answer", AnswerRequest, Task.answer, "Answer a client tool", ANSWER, needs_body=True, decided="answered"),
    Control("resolve", ResolutionRequest, Task.resolve, "Resolve a tool call", RESOLVE, needs_body=True,
            decided="resolved"),
)
# fmt: on


@router.read(
    "/tasks/{task_id}/receipts/{item_id}",
    Receipt,
    "Show a receipt",
    Scope.READ,
    Scope.CONTROL,
    statuses=(404, 409),
)
def get_receipt(task: Task, item_id: ItemId) -> Receipt:
    """Return when an item was accepted and applied, and how it ended a reply of a model."""
    try:
        return task.receipt(item_id)
    except UsageError:
        raise not_found(f"no item {item_id!r}", "its id is in the response to its request") from None


class _Request:
    """A request that sends an item to a task."""

    def __init__(self, control: Control, gateway: Gateway, caller: Principal, given: dict[str, Any]) -> None:
        self.control = control
        self.gateway = gateway
        self.caller = caller
        self.task_id: str = given["task_id"]
        self.call_id: str | None = given.get("call_id")
        self.body: Any = given.get("body") or control.model()
        self.key: str | None = given.get("key")
        purpose = control.path if self.call_id is None else f"{control.path} {self.call_id}"
        named: str | None = getattr(self.body, "item_id", None)
        self.item_id = chosen_item_id(named, self.key, self.task_id, purpose)

    async def admit(self) -> None:
        """Raise Problem unless the limits of the caller allow the control. What is accepted already is not refused."""
        if (limits := getattr(self.body, "limits", None)) is not None:
            check_within_budget(self.caller, limits)
        if self.control.path == "answer" or getattr(self.body, "message", None) is not None:
            await self.gateway.admit_message(self.caller, self._is_accepted)

    def _is_accepted(self) -> bool:
        task = self.gateway.find_task(self.caller, self.task_id)
        if self.call_id is not None:
            return are_answered(task, [self.call_id])
        return self.item_id is not None and is_stored(task, self.item_id)

    def send(self) -> tuple[Task, Receipt | None]:
        """Send the item in a thread. Return the task and the receipt."""
        task, item_id = self.gateway.find_task(self.caller, self.task_id), self.item_id
        options = given_options(self.body, "item_id", "limits")
        if hasattr(self.body, "limits"):
            options |= self.body.limits.overrides()
        if self.control.has_id:
            options["item_id"] = item_id
        call = () if self.call_id is None else (self.call_id,)
        with reporting_reuse(self.key, lambda: item_id is not None and is_stored(task, item_id)):
            return task, self.control.method(task, *call, by=self.caller.by, **options)

    async def applied(self, task: Task, receipt: Receipt, seconds: float) -> Receipt:
        """Return the receipt once its item has had its effect, or as it is if that takes longer.

        The item is accepted already: an error of a read ends the wait, and not the request.
        """

        def read() -> tuple[Receipt, bool]:
            now = latest_receipt(task.receipt, receipt)
            return now, self.control.is_done(task, now)

        async def is_done() -> bool:
            nonlocal receipt
            try:
                receipt, done = await self.gateway.calls.reads.run(read)
            except (Problem, RobocoError):
                return True  # the store is silent or damaged
            return done

        await wait_until(self.gateway, seconds, is_done)
        return receipt


def _add(control: Control) -> None:
    decided = control.decided

    async def endpoint(gateway: Gateway, caller: Principal, wait: float = 0, **given: Any) -> Response:
        caller.require(Scope.CONTROL if decided in ("", "answered") else Scope.APPROVE)
        request = _Request(control, gateway, caller, given)
        await request.admit()
        task, receipt = await gateway.calls.controls.run(request.send)
        if receipt is None:
            return json_response({"task_id": task.task_id, "call_id": request.call_id, "status": decided})
        receipt = await request.applied(task, receipt, wait)
        return json_response(receipt, 202, f"/v1/tasks/{task.task_id}/receipts/{receipt.item_id}")

    types: dict[str, Any] = {"gateway": TheGateway, "caller": Caller, "task_id": TaskId}
    types |= {"call_id": CallId} if decided else {}
    types |= {"body": control.model} if control.needs_body else {"body": control.model | None}
    types |= {"key": IdempotencyKey} if control.has_id else {}
    types |= {"wait": WaitSeconds} if control.waits else {}
    defaults = {"key": None, "wait": 0} | ({} if control.needs_body else {"body": None})
    parameters = (
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=defaults.get(name, Parameter.empty))
        for name, kind in types.items()
    )
    endpoint.__signature__ = Signature(list(parameters))  # type: ignore[attr-defined] # functions may have one
    (calls_router if decided else router).add_api_route(
        f"/tasks/{{task_id}}/{'calls/{call_id}/' if decided else ''}{control.path}",
        endpoint,
        methods=["POST"],
        name=control.name or f"{control.path}_{'call' if decided else 'task'}",
        summary=control.summary,
        description=control.text,
        status_code=200 if decided else 202,
        response_model=CallDecision if decided else Receipt,
        responses=problems(404, 409),
    )


for _control in CONTROLS:
    _add(_control)
