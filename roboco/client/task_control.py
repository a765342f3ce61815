"""TaskControl: everything that a caller sends to a task. Each item is accepted before its method returns."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any, Final, Literal, Unpack

from roboco.broker import names
from roboco.client.audit import MAX_ID_CHARS, Act, audited
from roboco.client.blocking import wait_for
from roboco.client.in_thread import CONTROLS, in_thread, run_in_thread
from roboco.client.options import AnswerOptions, LimitOptions, MessageOptions
from roboco.client.receipt import Receipt, find_receipt, is_final, latest_receipt
from roboco.client.task_commands import handle_task_command
from roboco.client.task_handle import TaskHandle
from roboco.domain.ids import NewId
from roboco.domain.notification import NotifyTarget
from roboco.engine import notifications
from roboco.engine.accept.control import IfBusy

RECEIPT_POLL_INTERVAL: Final = 0.02
"""Seconds between two reads of a receipt, while a caller waits until its item is applied."""


class TaskControl(TaskHandle):
    """The controls of a task. An item is accepted, in the workspace, when its method returns.

    `by` is the identity of the caller, as a trusted service names it: up to 200 printable characters. The history shows
    it. If an item is sent again, the first `by` counts.

    An item has its effect once, however often it is sent with the same `item_id`. All methods raise UsageError if the
    item is wrong and TransientError if a server does not answer. After a TransientError the same item may be sent
    again.
    """

    def send(
        self,
        message: str,
        agent: str | None = None,
        item_id: str | None = None,
        if_busy: IfBusy | None = None,
        **options: Unpack[MessageOptions],
    ) -> Receipt:
        """Add a message of the user; `agent` may name the agent that answers it. Return its receipt.

        A task that waits for its user continues. One that is paused, or waits for a call, applies the message after
        that. While agents or tools run, the message waits for the end of the current step ("queue"), cancels that step
        ("interrupt"), or is refused ("reject"): as `if_busy` says, or else the team file.
        Raises UsageError if the task has ended.
        """
        arguments = {"message": message, "agent": agent, "if_busy": if_busy, **options}
        return self._accept(names.SEND_TASK, item_id, arguments)

    def interrupt(
        self,
        message: str | None = None,
        agent: str | None = None,
        item_id: str | None = None,
        timeout: float = 0.0,
        **options: Unpack[MessageOptions],
    ) -> Receipt:
        """Cancel the current step, and continue with the message of the user, or wait for one. Return the receipt.

        The text that an agent has streamed so far becomes a step with `interrupted` in its metadata, and the worker
        closes the connection to its model, even before the first token. If a worker has not stored that text within two
        seconds, the coordinator supersedes the worker and the text is void. Open tool calls are closed with an error
        result, and running tools are notified. Then the message becomes a step, and the interrupted agent continues,
        unless `agent` names another one.

        If no worker has claimed the turn yet, the turn is superseded. Between two steps, while the task waits, and
        while it is paused, the message is the next step. A paused task stays paused; open calls are closed. Several
        interruptions in a row all become steps, in their order. Raises UsageError if the task has ended.

        Without a message, the work ends in the same way. Then the task waits in `user_turn`, "interrupted by the user",
        and the next message continues it. Messages that were sent before become steps first. `effect` of the receipt
        says which work ended. A task that waits in `user_turn` already stays as it is; a sub-task, which has no user,
        ends.

        The method waits up to `timeout` seconds until the message is applied; the receipt then says when that was.
        """
        receipt = self._accept(names.INTERRUPT_TASK, item_id, {"message": message, "agent": agent, **options})
        return self._wait_applied(receipt, timeout)

    def stop(
        self,
        reason: str = "stopped by the user",
        item_id: str | None = None,
        timeout: float = 0.0,
        *,
        by: str | None = None,
    ) -> Receipt:
        """End the task now, as `cancelled`. The current step is cancelled as by `interrupt`. Return the receipt.

        A task that has not started ends before it starts; over Celery, that includes a task that is submitted later.
        A task that has ended stays as it is; the receipt then says `expired`, if `timeout` is not 0. The method waits
        up to `timeout` seconds until the task has ended: then its summary and result show the end.
        """
        receipt = self._accept(names.STOP_TASK, item_id, {"reason": reason, "by": by})
        return self._wait_applied(receipt, timeout, self.has_stopped)

    def pause(self, item_id: str | None = None, *, by: str | None = None) -> Receipt:
        """Pause the task after its current step. Return the receipt. Raises UsageError if the task has ended."""
        return self._accept(names.PAUSE_TASK, item_id, {"by": by})

    def step(self, item_id: str | None = None, *, by: str | None = None) -> Receipt:
        """Run one step, or finish the current one, and pause then. Return the receipt.

        Raises UsageError if the task has ended.
        """
        return self._accept(names.STEP_TASK, item_id, {"by": by})

    def resume(self, item_id: str | None = None, *, by: str | None = None) -> Receipt:
        """Resume a paused task; any other task stays as it is. Return the receipt.

        Raises UsageError if the task has ended.
        """
        return self._accept(names.RESUME_TASK, item_id, {"by": by})

    def answer(
        self,
        call_id: str,
        result: Any = None,
        *,
        status: Literal["success", "error", "declined"] = "success",
        error: str | None = None,
        **options: Unpack[AnswerOptions],
    ) -> None:
        """Submit the result of a call of a client tool: `result` is any JSON, `error` says why there is none.

        The calls of a step may be answered in any order, also while others run. A call has one answer: the same answer
        again has no effect. Raises UsageError for another answer, or if the call is not open.
        """
        outcome = {"result": result, "status": status, "error": error}
        self._accept(names.ANSWER_TASK, None, {"call_id": call_id, **outcome, **options})

    def approve(
        self, call_id: str, args: dict[str, Any] | None = None, reason: str = "", *, by: str | None = None
    ) -> None:
        """Approve a call that needs it. If `args` are given, they replace the arguments of the call.

        The first decision on a call counts: the same decision again has no effect. Raises UsageError for another
        decision, or if the call is not open.
        """
        self._accept(names.APPROVE_TASK, None, {"call_id": call_id, "args": args, "reason": reason, "by": by})

    def deny(self, call_id: str, reason: str = "", *, by: str | None = None) -> None:
        """Deny a call that needs approval; its agent reads the reason. As for `approve`, the first decision counts."""
        self._accept(names.DENY_TASK, None, {"call_id": call_id, "reason": reason, "by": by})

    def resolve(
        self, call_id: str, happened: bool, result: Any = None, item_id: str | None = None, *, by: str | None = None
    ) -> None:
        """Resolve a tool call with an unknown outcome: whether it had its effect, and with which `result` (any JSON).

        The task waits for it in status `approval`, if its tool says `on_unknown: ask`. The first decision counts.
        Raises UsageError if the call has no unknown outcome, and TransientError while a worker still verifies it.
        """
        arguments = {"call_id": call_id, "happened": happened, "result": result, "by": by}
        self._accept(names.RESOLVE_TASK, item_id, arguments)

    def set_limits(
        self, item_id: str | None = None, *, by: str | None = None, **limits: Unpack[LimitOptions]
    ) -> Receipt:
        """Replace these limits of the task (see `Limits`); a task that is paused at a limit continues.

        The new limits count from the next step on: current and open calls are answered before that. `agents` and
        `tools` hold limits by name. Return the receipt.
        Raises UsageError if the task has ended, or has no such agent or tool.
        """
        return self._accept(names.SET_LIMITS_TASK, item_id, {"limits": limits, "by": by})

    def push_receivers(self) -> list[NotifyTarget]:
        """Return the receivers of push notifications of A2A, the oldest first."""
        found = notifications.push_receivers(self._engine.workspace, self.task_id).receivers
        return [found[place] for place in sorted(found)]

    def takes_push_receivers(self) -> bool:
        """Return True if the task may have receivers of push notifications: tasks that A2A has begun may."""
        first = next(self._engine.workspace.histories.read(self.task_id), None)
        return first is not None and notifications.takes_push_receivers(first)

    def check_push_receiver(self, push_id: str) -> None:
        """Raise UsageError if there is no room for a receiver of push notifications with this id."""
        notifications.push_receivers(self._engine.workspace, self.task_id).place_for(push_id)

    def set_push_receiver(self, receiver: NotifyTarget, *, by: str | None = None) -> None:
        """Add a receiver of push notifications, or replace that with the same id."""
        push_id = "" if receiver.push is None else receiver.push.id
        details = {"push_id": push_id, "webhook": receiver.label[:MAX_ID_CHARS]}
        with audited(Act("set_push_receiver", by, self.task_id, details=details), self._settings.audit_log):
            notifications.set_push_receiver(self._engine, self.task_id, receiver)

    def remove_push_receiver(self, push_id: str, *, by: str | None = None) -> None:
        """Remove the receiver of push notifications with this id, if the task has it."""
        act = Act("remove_push_receiver", by, self.task_id, details={"push_id": push_id[:MAX_ID_CHARS]})
        with audited(act, self._settings.audit_log):
            notifications.remove_push_receiver(self._engine, self.task_id, push_id)

    def receipt(self, item_id: str) -> Receipt:
        """Return the receipt of an item as of now. Raises UsageError if the task has no item with this id."""
        return find_receipt(self._engine.workspace, self.task_id, item_id)

    def has_stopped(self, receipt: Receipt) -> bool:
        """Return True if the stop with this receipt is done, and the task's summary and result show its end."""
        if not is_final(receipt):
            return False
        summary = self._engine.workspace.summaries.get(self.task_id)
        return summary is None or summary.status.ended  # without a summary it was erased

    async def ainterrupt(
        self,
        message: str | None = None,
        agent: str | None = None,
        item_id: str | None = None,
        timeout: float = 0.0,
        **options: Unpack[MessageOptions],
    ) -> Receipt:
        """Do the same as `interrupt`, for an event loop. No thread waits until the message is applied."""
        receipt = await run_in_thread(lambda: self.interrupt(message, agent, item_id, **options), CONTROLS)
        return await self._await_applied(receipt, timeout)

    async def astop(
        self,
        reason: str = "stopped by the user",
        item_id: str | None = None,
        timeout: float = 0.0,
        *,
        by: str | None = None,
    ) -> Receipt:
        """Do the same as `stop`, for an event loop. No thread waits until the task has ended."""
        receipt = await run_in_thread(lambda: self.stop(reason, item_id, by=by), CONTROLS)
        return await self._await_applied(receipt, timeout, self.has_stopped)

    asend = in_thread(send, CONTROLS)
    apause = in_thread(pause, CONTROLS)
    astep = in_thread(step, CONTROLS)
    aresume = in_thread(resume, CONTROLS)
    aanswer = in_thread(answer, CONTROLS)
    aapprove = in_thread(approve, CONTROLS)
    adeny = in_thread(deny, CONTROLS)
    aresolve = in_thread(resolve, CONTROLS)
    aset_limits = in_thread(set_limits, CONTROLS)
    areceipt = in_thread(receipt, CONTROLS)

    def _wait_applied(self, receipt: Receipt, seconds: float, is_done: Callable[[Receipt], bool] = is_final) -> Receipt:
        return wait_for(self._await_applied(receipt, seconds, is_done)) if seconds > 0 else receipt

    async def _await_applied(
        self, receipt: Receipt, seconds: float, is_done: Callable[[Receipt], bool] = is_final
    ) -> Receipt:
        """Return the receipt as soon as the item has had its effect, or as it is after this time.

        Between two reads of the receipt no thread is in use.
        """

        def read() -> tuple[Receipt, bool]:
            now = latest_receipt(self.receipt, receipt)
            return now, is_done(now)

        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                while seconds > 0:
                    receipt, done = await run_in_thread(read, CONTROLS)
                    if done:
                        break
                    await asyncio.sleep(RECEIPT_POLL_INTERVAL)
        except TimeoutError:
            if not limit.expired():
                raise
        return receipt

    def _accept(self, name: str, item_id: str | None, arguments: dict[str, Any]) -> Receipt:
        new_id = NewId(uuid.uuid4().hex)
        requested_at = self._engine.now()
        named = {} if item_id is None else {"item_id": item_id}
        handle_task_command(self._engine, self._settings, name, {"task_id": self.task_id, **arguments, **named}, new_id)
        return Receipt(item_id or new_id, requested_at)
