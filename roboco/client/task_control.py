"""Control: what is done to a task from outside, each accepted before its method returns."""

import time
import uuid
from typing import Any, Literal, Unpack

from roboco.adapters.celery import names
from roboco.client.commands import take
from roboco.client.options import Raised, Said
from roboco.client.receipt import Receipt, find_receipt
from roboco.engine.engine import Engine
from roboco.engine.intake.send import WhileWorking
from roboco.settings import Settings


class Control:
    """What is sent to a task is accepted when the call returns.

    It is done once, however often it is sent with the same `item_id`. UsageError if it is wrong, TransientError if a
    server does not answer: then it may be sent again.
    """

    def __init__(self, task_id: str, engine: Engine, settings: Settings) -> None:
        self.task_id = task_id
        self._engine = engine
        self._settings = settings

    def send(
        self,
        message: str,
        agent: str | None = None,
        item_id: str | None = None,
        while_working: WhileWorking | None = None,
        **said: Unpack[Said],
    ) -> Receipt:
        """Add a message of the user; `agent` may name who answers.

        A task that waits for its user goes on; one that is paused, or waits for a call, takes it after that.
        While the team works the message waits for the end of what is being done ("queue"), ends it ("interrupt"), or is
        refused ("reject"): as `while_working` says, or else the team. UsageError if the task has ended.
        """
        asked = {"message": message, "agent": agent, "while_working": while_working, **said}
        return self._take(names.SEND, item_id, asked)

    def interrupt(
        self,
        message: str,
        agent: str | None = None,
        item_id: str | None = None,
        wait: float = 0.0,
        **said: Unpack[Said],
    ) -> Receipt:
        """End what is being done, and go on with the message of the user.

        What an agent was saying stands as a step with `interrupted` in its metadata, and the connection to its model is
        closed, also if no token has come. A worker that has not stored what was said within two seconds is passed over,
        and that is void. Open tool calls are closed with an error result, and running tools are told.
        Then the message is a step, and the interrupted agent goes on, unless `agent` names another one.

        Before a worker took the turn, the turn is passed over. Between two steps, while the task waits, and while it is
        paused, the message is the next step, and a paused task stays paused; calls that were waited for are closed.
        Several in a row are all steps, in their order. UsageError if the task has ended.

        The receipt says when all of that was, if it has been by then: up to `wait` seconds are waited for it.
        """
        taken = self._take(names.INTERRUPT, item_id, {"message": message, "agent": agent, **said})
        return self._within(wait, taken)

    def stop(self, reason: str = "stopped by the user", item_id: str | None = None, wait: float = 0.0) -> Receipt:
        """End the task now, as `cancelled`: what is being done is ended as by an interruption.

        A task that has not begun ends before it does (over Celery also one that is yet to be submitted); one that has
        ended stays as it is. The receipt is as for `interrupt`.
        """
        return self._within(wait, self._take(names.STOP, item_id, {"reason": reason}))

    def pause(self, item_id: str | None = None) -> Receipt:
        """Begin no further step: what is being done comes to its end. UsageError if the task has ended."""
        return self._take(names.PAUSE, item_id, {})

    def step(self, item_id: str | None = None) -> Receipt:
        """Make one step, or end the one that is being made, and hold then. UsageError if the task has ended."""
        return self._take(names.STEP, item_id, {})

    def resume(self, item_id: str | None = None) -> Receipt:
        """Go on after a pause; a task that is not paused stays as it is. UsageError if the task has ended."""
        return self._take(names.RESUME, item_id, {})

    def answer(
        self,
        call_id: str,
        result: Any = None,
        *,
        status: Literal["success", "error", "declined"] = "success",
        error: str | None = None,
        runtime_ms: int = 0,
    ) -> None:
        """Say what came of a call of a client tool: its `result` (any JSON), or why there is none.

        The calls of a step may be answered in any order, also while others run. A call has one answer: the same again
        changes nothing, and UsageError if it was another one, or if the call is not open.
        """
        asked = {"call_id": call_id, "result": result, "status": status, "error": error, "runtime_ms": runtime_ms}
        self._take(names.ANSWER, None, asked)

    def approve(self, call_id: str, args: dict[str, Any] | None = None, reason: str = "") -> None:
        """Let a call run that needs approval, with other arguments if `args` says so.

        The first word on a call counts: the same again changes nothing, and UsageError if it was another one, or if the
        call is not open.
        """
        self._take(names.APPROVE, None, {"call_id": call_id, "args": args, "reason": reason})

    def deny(self, call_id: str, reason: str = "") -> None:
        """Do not let a call run that needs approval; its agent is told why. As for `approve`, the first word counts."""
        self._take(names.DENY, None, {"call_id": call_id, "reason": reason})

    def resolve(self, call_id: str, happened: bool, result: Any = None, item_id: str | None = None) -> None:
        """Say of a tool call whose outcome nobody knows whether it had its effect, and with what `result` (any JSON).

        The task waits for it in status `approval`, if the tool says `on_unknown: ask`. The first word on a call counts.
        UsageError if the call waits for nobody; TransientError while it is yet being looked into.
        """
        self._take(names.RESOLVE, item_id, {"call_id": call_id, "happened": happened, "result": result})

    def raise_limits(self, item_id: str | None = None, **limits: Unpack[Raised]) -> Receipt:
        """Put these limits in the place of the task's (see `Limits`); a task that paused at a limit goes on.

        They count from the next step on: calls that are being made, or waited for, are answered before that.
        `agents` and `tools` hold limits by their names. UsageError if the task has ended, or has no such agent or tool.
        """
        return self._take(names.RAISE_LIMITS, item_id, {"limits": limits})

    def receipt(self, item_id: str) -> Receipt:
        """What has become by now of what was sent with this item id; UsageError if the task got none."""
        return find_receipt(self._engine, self.task_id, item_id)

    def _within(self, seconds: float, receipt: Receipt) -> Receipt:
        """The receipt, as soon as it was taken over or the time is up."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            now = self.receipt(receipt.item_id)
            if now.taken_at_seq is not None or now.too_late:
                return now
            time.sleep(0.02)
        return receipt

    def _take(self, name: str, item_id: str | None, asked: dict[str, Any]) -> Receipt:
        given = uuid.uuid4().hex
        requested_at = self._engine.now()
        named = {} if item_id is None else {"item_id": item_id}
        take(self._engine, self._settings, name, {"task_id": self.task_id, **asked, **named}, given)
        return Receipt(item_id or given, requested_at)
