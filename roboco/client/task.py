"""Task: one task as its caller sees it, from any process that reaches Redis and the workspace.

Its parts: the stream and the result; controls, which send items; the record, which reads; files; other tasks from it.
"""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, Unpack, overload

from roboco.broker import names
from roboco.client import session as sessions
from roboco.client.async_stream import AsyncTaskStream, without_gaps
from roboco.client.audit import MAX_ID_CHARS, Act, audited
from roboco.client.blocking import iterate, wait_for
from roboco.client.commands import handle_task_command
from roboco.client.context_report import ContextReport, context_report, find_turn
from roboco.client.feedback import read_feedback, store_feedback
from roboco.client.in_thread import CONTROLS, SUBMISSIONS, in_thread, run_in_thread
from roboco.client.operator import what_if as comparisons
from roboco.client.operator.what_if import RunningComparison, WhatIfOptions
from roboco.client.options import AnswerOptions, ForkOptions, LimitOptions, MessageOptions
from roboco.client.pending_actions import PendingActions
from roboco.client.receipt import Receipt, find_receipt, is_final, latest_receipt
from roboco.client.stream import TaskStream, WorkerCheck
from roboco.client.sub_task_stream import SubTaskStream
from roboco.client.task_result import TaskResult, state_of
from roboco.client.team_lookup import resolve_team
from roboco.domain.decision.router import Router, route
from roboco.domain.feedback import Feedback
from roboco.domain.history.call_failure import CallFailure
from roboco.domain.history.lineage import parent_of
from roboco.domain.history.part import Artifact
from roboco.domain.history.state import fold
from roboco.domain.history.step import TaskStep, verify_chain
from roboco.domain.history.steps_on_demand import StepsOnDemand
from roboco.domain.history.task_state import TaskState
from roboco.domain.ids import NewId, check_task_id, qualified_id, tenant_of
from roboco.domain.limits import Limits
from roboco.domain.notification import NotifyTarget
from roboco.domain.paths import artifact_path, artifacts_path
from roboco.domain.reading_form import DocumentForm, check_form, steps_in_form
from roboco.domain.recorded.recorded_task import RecordedTask
from roboco.domain.session.agent_session import (
    AgentSessionDelta,
    AgentSessionRecord,
    SessionForm,
    agent_delta,
    agent_session,
    is_roboto,
)
from roboco.domain.session.session import ContinuationToken, Session, SessionDelta
from roboco.domain.status import TaskStatus
from roboco.domain.stream.item import StreamItem, final_text
from roboco.domain.stream.merged import Cursor
from roboco.domain.task_summary import TaskSummary
from roboco.domain.team.team import Team
from roboco.domain.team.tool_listing import ToolDifference
from roboco.engine import notifications
from roboco.engine.accept.answer import open_tool_changes
from roboco.engine.accept.at_rest import stays_at_rest
from roboco.engine.accept.control import IfBusy
from roboco.engine.accept.evidence import current_reason
from roboco.engine.accept.wait_cause import current_cause
from roboco.engine.engine import Engine
from roboco.engine.record.call_failures import call_failures
from roboco.engine.record.recover import newest_step
from roboco.engine.record.tool_listings import left_out_tools
from roboco.engine.workspace_records import check_not_erased, team_as_data
from roboco.errors import CorruptHistory, NotFound, UsageError
from roboco.ports.snapshot import Snapshot
from roboco.redis.stream.async_follower import AsyncFollower
from roboco.redis.stream.follower import RedisFollower
from roboco.settings import Settings
from roboco.workspace.artifacts.store import checked_name, find_artifact, iter_pieces, list_artifacts, read_artifact
from roboco.workspace.artifacts.stored_stream import upload

RECEIPT_POLL_INTERVAL: Final = 0.02
"""Seconds between two reads of a receipt, while a caller waits until its item is applied."""
MAX_LINK_SECONDS: Final = 604_800
"""Seconds for which an S3 URL can be signed at most."""


class Task:
    """A submitted task. Iterating over it yields the merged stream until the task has ended.

    Creating the object reads nothing: the task may not exist. Methods raise UsageError if there is no such task, or if
    an argument is wrong, and TransientError if a server does not answer. `history`, `stored_summary`, `team`, `verify`,
    `call_failures`, and `recorded` with a `summary`, read the workspace alone.

    An item, such as a message or a stop, is accepted, in the workspace, when its method returns. It has its effect
    once, however often it is sent with the same `item_id`. After a TransientError the same item may be sent again.
    `by` is the identity of the caller, as a trusted service names it: up to 200 printable characters. The history shows
    it. If an item is sent again, the first `by` counts.
    """

    task_id: str
    """The id of the task; that of a tenant's task is TENANT:ID."""

    created: bool = False
    """True if the `run`, `fork` or `retry` that returned this task has created it, and was no repetition."""

    def __init__(self, task_id: str, engine: Engine, follower: RedisFollower, settings: Settings) -> None:
        self.task_id = task_id
        self._engine = engine
        self._follower = follower
        self._settings = settings

    @cached_property
    def _stream(self) -> TaskStream:
        address = self._settings.workspace_address
        worker_check = WorkerCheck(self.task_id, lambda: current_cause(self._engine, address, self.task_id))
        return TaskStream(self.task_id, self._engine, self._follower, self.settled_summary, worker_check)

    @cached_property
    def _async_stream(self) -> AsyncTaskStream:
        return AsyncTaskStream(self._stream, AsyncFollower(self._follower))

    def _stream_of(self, task_id: str) -> AsyncTaskStream:
        """Return the stream of this task or of a sub-task, which may wait for its place among others."""
        if task_id == self.task_id:
            return self._async_stream
        check = WorkerCheck(task_id, lambda: None)
        summary = self._other(task_id).settled_summary
        return AsyncTaskStream(
            TaskStream(task_id, self._engine, self._follower, summary, check), AsyncFollower(self._follower)
        )

    @property
    def worker_check(self) -> WorkerCheck:
        """The regular check of the task's stream and waits whether the task goes on."""
        return self._stream.worker_check

    def __iter__(self) -> Iterator[StreamItem]:
        return self.stream()

    def __repr__(self) -> str:
        return f"Task({self.task_id!r})"

    def stream(self, cursor: str | None = None, *, subtasks: bool = False) -> Iterator[StreamItem]:
        """Yield each item after the cursor, live until the task has ended; without a cursor, from the beginning.

        Items are the texts, tool calls, tool results and steps of the content, and the execution events, in the order
        in which they happened. Each item carries a cursor. A later call with that cursor continues after the item: no
        item is missing and none is repeated. Ending the iteration does not affect the task.
        With `subtasks`, the items of its sub-tasks are among them, and those of their sub-tasks. Each item has its
        `task_id`, and the cursors are those of streams with `subtasks`.
        Raises UsageError if the cursor is invalid, and TransientError if Redis or the workspace has not answered for a
        minute.
        """
        return iterate(self.astream(cursor, subtasks=subtasks))

    def astream(self, cursor: str | None = None, *, subtasks: bool = False) -> AsyncGenerator[StreamItem, None]:
        """Do the same as `stream`, with the same cursors, for an event loop: `async for item in task.astream()`.

        All followers in a loop share one connection for live items, and some threads that read logs. A slow follower
        gets its items from the log. Raises UsageError immediately if the cursor is invalid.
        """
        return without_gaps(self.astream_with_gaps(cursor, subtasks=subtasks))

    def astream_with_gaps(
        self, cursor: str | None = None, *, subtasks: bool = False
    ) -> AsyncGenerator[StreamItem | None, None]:
        """Do the same as `astream`, and also yield None when there is no further item for now.

        The first None follows the items that exist already, and others follow now and then. Many followers of one task
        share its items, and the JSON of their data (`item.data_json`).
        """
        if subtasks:
            return SubTaskStream(self.task_id, self._stream_of).items(cursor)
        return self._async_stream.items_and_gaps(cursor)

    def text(self) -> Iterator[str]:
        """Yield the text of each agent's step as soon as the step is committed, live until the task has ended.

        A committed text stays valid: joined, the texts are exactly the text of all agents in the history. The text of
        an attempt that was restarted, superseded or lost is never yielded. The pieces of a running step, which can
        become void, are only in `stream`. Raises TransientError as `stream` does.
        """
        return filter(None, map(final_text, self.stream()))

    async def atext(self) -> AsyncGenerator[str, None]:
        """Do the same as `text`, for an event loop: `async for text in task.atext()`."""
        async with aclosing(self.astream()) as items:
            async for item in items:
                if text := final_text(item):
                    yield text

    async def changed(self, token: str, seconds: float) -> bool:
        """Wait until the logs have a message after the position of a session's token, at most these seconds.

        Return True if they have one: `poll` may return changes then. No thread waits, and no connection is opened.
        Raises UsageError if the token is invalid, and TransientError if Redis has not answered for a minute.
        """
        at = ContinuationToken.parse(token)
        try:
            async with asyncio.timeout(seconds):
                await self._async_stream.changed(at)
        except TimeoutError:
            return False
        return True

    @property
    def status(self) -> TaskStatus:
        """The task's status now. Raises UsageError if there is no such task.

        Cost: one read of Redis, and if Redis has no open task of this id, one read of the summary in the workspace.
        """
        live = self._engine.tasks.task_store.load(self.task_id, 1)
        return self.summary().status if live is None or live.position.status.ended else live.position.status

    def result(self, timeout: float | None = None) -> TaskResult:
        """Wait until the task has ended or waits (for its user, client, an approval or a resume). Return its result.

        If the task has accepted an item that ends its wait, such as a message, it is the result after that.
        It reads the task whenever an event arrives, and now and then. All waits of a process share a connection.
        If no worker processes the task for ten seconds, it logs a warning that names the missing pool.
        Raises TimeoutError after `timeout` seconds, and TransientError if Redis or the workspace has not answered for a
        minute.
        """
        summary = self._stream.summary()
        return self._stream.result(summary) if self._stream.stays_at_rest(summary) else wait_for(self.aresult(timeout))

    async def aresult(self, timeout: float | None = None) -> TaskResult:
        """Do the same as `result`, for an event loop."""
        try:
            async with asyncio.timeout(timeout):
                summary = await self._async_stream.wait_at_rest()
        except TimeoutError as error:
            missing = self._stream.worker_check.missing_worker
            because = f": {missing}" if missing else ""
            known = f" ({status})" if (status := self._async_stream.last_status) else ""
            message = f"task {self.task_id!r} is still open{known} after {timeout or 0:g} s{because}"
            raise TimeoutError(message) from error
        return await self._async_stream.result(summary)

    def fork(
        self,
        seq: int | None = None,
        message: str | None = None,
        *,
        team: Team | str | Path | None = None,
        **options: Unpack[ForkOptions],
    ) -> "Task":
        """Start a new task from the steps up to and including `seq`; by default all but the error that ended this one.

        Return the new task. It continues with the `message`, `team` or `model` that are given; this task stays as it
        is. Tool calls of the copied steps keep their results and are not run again. Files that the steps refer to are
        copied. Limits of steps and tokens count the copied steps; limits of seconds count from now.
        Raises UsageError if an option is wrong.
        """
        task_id = qualified_id(tenant_of(self.task_id) or None, options.get("task_id") or f"task_{uuid.uuid4().hex}")
        named = {name: value for name, value in options.items() if value is not None} | {"task_id": task_id}
        data = None if team is None else team_as_data(resolve_team(self._settings, team))
        arguments = named | {"source": self.task_id, "seq": seq, "message": message, "team": data}
        task = self._other(task_id)
        task.created = bool(handle_task_command(self._engine, self._settings, names.FORK_TASK, arguments, ""))
        return task

    def retry(
        self,
        reason: str = "",
        *,
        by: str | None = None,
        from_step: int | None = None,
        **limits: Unpack[LimitOptions],
    ) -> "Task":
        """Continue a failed task in a new one, from its last good step. Return the new task, which `retried_as` names.

        Call it once the cause of the failure is fixed; the history of the new task keeps the `reason` and `by`. It
        begins with the steps of this one, whose error no agent sees. Tool calls keep their results and are not run
        again. Receivers of notifications hear of the new task, too. `limits` replace limits of the task, which is
        necessary if one of them has ended it; limits of seconds count from the retry.
        `from_step` is the position of the last good step, as the caller knows it; another one is refused.
        A task is retried once: a repetition returns the same new task. Raises UsageError if the task has not failed,
        would reach a limit again, is a sub-task, or was retried for another reason or with other limits. Right after
        the failure it waits until the end is complete, and raises TransientError if that takes longer than seconds.
        """
        arguments = {"task_id": self.task_id, "reason": reason, "limits": limits, "by": by, "from_step": from_step}
        created = handle_task_command(self._engine, self._settings, names.RETRY_TASK, arguments, "")
        task = self._other(self.stored_summary().retried_as)
        task.created = bool(created)
        return task

    def what_if(self, seq: int | None = None, **options: Unpack[WhatIfOptions]) -> RunningComparison:
        """Start runs that continue from step `seq` differently; by default from the message with which the task began.

        Runs are tasks on the same workers. The results of their tools are those that this task has recorded for the
        same tool and arguments, and no tool with an effect runs. `wait` of the returned comparison waits for the runs,
        `report` compares them, and `stop` stops them. Their ids begin with "whatif-".
        Raises UsageError if an option is wrong, and Overloaded if too many turns wait.
        """
        started = comparisons.start(self._engine, self._settings, self.task_id, seq, options)
        return RunningComparison(self._engine, self._other, self.task_id, *started)

    def comparison(self, what_if: str) -> RunningComparison:
        """Return the comparison of this id, which `what_if` has started. Raises UsageError if there is none."""
        found = comparisons.find(self._engine.workspace, self.task_id, what_if)
        return RunningComparison(self._engine, self._other, self.task_id, *found)

    def _other(self, task_id: str) -> "Task":
        return Task(task_id, self._engine, self._follower, self._settings)

    afork = in_thread(fork, SUBMISSIONS)
    aretry = in_thread(retry, SUBMISSIONS)
    awhat_if = in_thread(what_if, SUBMISSIONS)

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

    def summary(self) -> TaskSummary:
        """Return the task at a glance, as of now. It ends with its stream, before its workspace has the end."""
        return self._as_of_now(self.stored_summary())

    def settled_summary(self) -> TaskSummary:
        """Return the same, but a task that has ended is running until its workspace has the end."""
        stored = self.stored_summary()
        now = self._as_of_now(stored)
        is_closing = now.status.ended and not stored.status.ended
        return now.model_copy(update={"status": TaskStatus.RUNNING}) if is_closing else now

    def _as_of_now(self, stored: TaskSummary) -> TaskSummary:
        live = None if stored.status.ended else self._engine.tasks.task_store.load(self.task_id, 1)
        if live is None:
            return stored
        state = live.state
        return stored.model_copy(
            update={
                "status": live.position.status,
                "reason": current_reason(live, self._engine.clock.now()),
                "steps": live.position.seq,
                "tokens_in": state.tokens_in,
                "tokens_out": state.tokens_out,
                "cost": state.cost,
                "agents": state.agents,
                "tools": state.tools,
            }
        )

    def is_at_rest(self, summary: TaskSummary | None = None) -> bool:
        """Return True if the workspace has the end of the task, or it waits, and no accepted item ends its wait.

        `summary` is what its caller has read a moment ago. Cost: two reads of Redis for a task that waits, and one of
        the workspace for each item that is not applied yet, at most 100.
        """
        return stays_at_rest(self._engine, summary or self.settled_summary())

    def stored_summary(self) -> TaskSummary:
        """Return the task at a glance, as the workspace has it; of an open task that may be some steps old."""
        return self._engine.workspace.summaries.require(self.task_id)

    @overload
    def history(self) -> list[TaskStep]: ...

    @overload
    def history(self, *, form: DocumentForm) -> list[dict[str, Any]]: ...

    def history(self, *, form: DocumentForm | None = None) -> list[TaskStep] | list[dict[str, Any]]:
        """Return the committed steps; with a form, as plain data that the classes of this document read."""
        return list(self.steps()) if form is None else list(steps_in_form(self.steps(), check_form(form)))

    def steps(self, start: int = 0) -> Iterator[TaskStep]:
        """Yield the committed steps from a position on, in order. The history is read while they are consumed."""
        return self._engine.workspace.histories.read(self.task_id, start)

    def resting_cursor(self) -> str | None:
        """Return the cursor of this moment if the task waits: a follower from it receives what happens from now on.

        Return None if the task runs, has ended or is unknown. Cost: one read of Redis.
        """
        task = self._engine.tasks.task_store.load(self.task_id, 1)
        return _cursor_of(task) if task is not None and task.position.status.waiting else None

    def recent_cursor(self) -> str | None:
        """Return a cursor before the running step: a follower from it receives this step, and what follows.

        Return None if Redis does not have the task: as a rule it has ended. Cost: one read of Redis.
        """
        task = self._engine.tasks.task_store.load(self.task_id, 1)
        return None if task is None else _cursor_of(task)

    def shared_state(self) -> dict[str, Any]:
        """Return the values that the task shares. Cost: one read of Redis, or of its history once it has ended."""
        live = self._engine.tasks.task_store.load(self.task_id, 1)
        return dict(live.state.values) if live is not None else state_of(self.steps())

    def team(self) -> Team:
        """Return the team of the task, frozen when it was submitted or forked."""
        return self._engine.workspace.frozen_teams.get(self.task_id)

    def limits(self) -> Limits:
        """Return the limits that apply now: those of the team, with later changes.

        Cost: one read of Redis; of a task that Redis no longer has, its summary, and if it is open, its history.
        """
        live = self._engine.tasks.task_store.load(self.task_id, 1)
        overrides = live.state.limit_overrides if live is not None else self.stored_summary().limit_overrides
        if overrides is None:
            overrides = fold(self.steps()).limit_overrides
        return self.team().limits.with_overrides(overrides)

    def verify(self) -> int:
        """Return the number of committed steps, after comparing each with its digest and with the step before it.

        Raises CorruptHistory if a step was changed, or is missing between others.
        """
        return verify_chain(self._engine.workspace.histories.lines(self.task_id))

    def call_failures(self) -> dict[str, CallFailure]:
        """Return the exceptions of the task's tool calls, with their last frames, by the ids of the calls."""
        return call_failures(self._engine.workspace.files, self.task_id)

    def recorded(self, summary: TaskSummary | None = None, router: Router = route) -> RecordedTask:
        """Return the recorded task, to explain or replay its decisions.

        `summary` gives its status, by default that of `summary()`. `router` is the task's router, if it is custom.
        Raises CorruptHistory if the workspace holds no steps of the task.
        """
        return self._recorded(summary or self.summary(), tuple(self.history()), router)

    def recorded_on_demand(self) -> RecordedTask:
        """Return the recorded task, to explain one step of it: each step is read when it is needed.

        Raises CorruptHistory if the workspace holds no steps of the task.
        """
        current, newest = self.summary(), newest_step(self._engine, self.task_id)
        steps = StepsOnDemand(self.steps, 0 if newest is None else newest.seq + 1)
        live = None if current.status.ended else self._engine.tasks.task_store.load(self.task_id, 1)
        state = live.state if live is not None and live.state.steps == len(steps) else None
        return self._recorded(current, steps, state=state)

    def _recorded(
        self, current: TaskSummary, steps: Sequence[TaskStep], router: Router = route, state: TaskState | None = None
    ) -> RecordedTask:
        if not steps:
            raise CorruptHistory(f"task {self.task_id!r} has no steps in its workspace")
        fork = self._engine.workspace.frozen_teams.own_fork_of(self.task_id, steps[0])
        return RecordedTask(
            team=self.team(),
            steps=steps,
            status=current.status,
            reason=current.reason,
            started_at=steps[0].created_at if fork is None else fork.created_at,
            first=1 if fork is None else fork.seq + 1,
            sub_task=parent_of(self.task_id, steps[0]) is not None,
            router=router,
            state=state,
        )

    def context_report(self, seq: int | None = None) -> ContextReport:
        """Return the steps that the prompt of an agent's turn contained; by default of the newest turn.

        Raises UsageError if there is no turn at this position.
        """
        return context_report(*find_turn(self.task_id, self.steps(), seq))

    def pending_actions(self) -> PendingActions:
        """Return the calls and limits for which the task waits: for a person, for its client, for an operator."""
        return PendingActions(self._engine, self.task_id)

    def tool_changes(self, newest: TaskStep | None = None) -> list[ToolDifference]:
        """Return the differences of changed tools whose open calls a person has to approve or deny.

        A caller that knows the `newest` step saves the question for it.

        Of a text that is longer than 4,000 characters, a difference holds that many, from shortly before the first
        character that differs.
        """
        return open_tool_changes(self._engine, self.task_id, newest)

    def left_out_tools(self) -> list[str]:
        """Return the tools that MCP servers list and agents cannot call, each with the reason."""
        return left_out_tools(self._engine.workspace, self.task_id)

    def missing_worker(self) -> str:
        """Return why the open task does not go on, with a remedy, or "" if no cause is known."""
        found = current_cause(self._engine, self._settings.workspace_address, self.task_id)
        return "" if found is None else found.text

    @overload
    def session(self, *, form: Literal["roboco"] = "roboco", max_bytes: int | None = None) -> Session: ...

    @overload
    def session(self, *, form: Literal["roboto", "003"], max_bytes: int | None = None) -> AgentSessionRecord: ...

    def session(self, *, form: SessionForm = "roboco", max_bytes: int | None = None) -> Session | AgentSessionRecord:
        """Return the task as a conversation: a message for each step, and one for a running turn.

        The form "roboto", also named "003", has the names, roles and statuses of roboto.ai's sessions. With
        `max_bytes`, return the first messages whose steps have at most these bytes, at least one; `more` says that
        deltas have further ones.
        """
        roboto, whole = is_roboto(form), sessions.session(self._engine, self.task_id, max_bytes)
        return agent_session(whole) if roboto else whole

    @overload
    def delta(
        self, token: str = "", *, form: Literal["roboco"] = "roboco", max_bytes: int | None = None
    ) -> SessionDelta: ...

    @overload
    def delta(
        self, token: str = "", *, form: Literal["roboto", "003"], max_bytes: int | None = None
    ) -> AgentSessionDelta: ...

    def delta(
        self, token: str = "", *, form: SessionForm = "roboco", max_bytes: int | None = None
    ) -> SessionDelta | AgentSessionDelta:
        """Return the changes of the session since the delta that gave this token; without a token, all of it.

        If `rewind_to` is set, a client first drops its messages from that index on. Then it puts `messages_by_idx` in
        their places, and holds the messages that `session` returns. `max_bytes` bounds the delta as it does a session.
        Cost: one request to Redis if nothing is new, two while tools run. If Redis no longer has the task, the method
        reads its summary in the workspace.
        """
        roboto, new = is_roboto(form), self.poll(token, max_bytes).changes
        return agent_delta(new) if roboto else new

    def poll(self, token: str = "", max_bytes: int | None = None) -> sessions.SessionPoll:
        """Return the same changes as `delta`, with the state of the task at the same moment.

        A message that was accepted a moment ago makes a waiting task continue as soon as a worker applies it: the
        result says so in `continues`, while the status still is that of the wait.
        """
        return sessions.poll(self._engine, self.task_id, token, max_bytes)

    def rate(
        self,
        seq: int,
        sentiment: Literal["positive", "negative"],
        *,
        by: str,
        categories: Sequence[str] = (),
        notes: str | None = None,
    ) -> Feedback:
        """Store the rating of an agent's step by the caller `by`, and return it. A newer one replaces an older one.

        The workspace holds it; agents do not read it. The same rating again changes nothing. Raises UsageError if the
        rating is wrong, or the step is none of an agent.
        """
        rating = {"sentiment": sentiment, "categories": list(categories), "notes": notes}
        return store_feedback(self._engine, self.task_id, seq, by, rating)

    def feedback(self) -> list[Feedback]:
        """Return the ratings of the task's steps, in the order of the steps. Cost: one read for each."""
        return read_feedback(self._engine.workspace, self.task_id)

    @overload
    async def asession(self, *, form: Literal["roboco"] = "roboco") -> Session: ...

    @overload
    async def asession(self, *, form: Literal["roboto", "003"]) -> AgentSessionRecord: ...

    async def asession(self, *, form: SessionForm = "roboco") -> Session | AgentSessionRecord:
        """Do the same as `session`, for an event loop."""
        return await run_in_thread(lambda: self.session(form=form))

    @overload
    async def adelta(self, token: str = "", *, form: Literal["roboco"] = "roboco") -> SessionDelta: ...

    @overload
    async def adelta(self, token: str = "", *, form: Literal["roboto", "003"]) -> AgentSessionDelta: ...

    async def adelta(self, token: str = "", *, form: SessionForm = "roboco") -> SessionDelta | AgentSessionDelta:
        """Do the same as `delta`, for an event loop."""
        return await run_in_thread(lambda: self.delta(token, form=form))

    asummary = in_thread(summary)
    ahistory = in_thread(history)

    def artifacts(self) -> list[Artifact]:
        """Return the task's files by name, each with its type, size, version and the step that wrote it."""
        return list_artifacts(self._engine.workspace.files, self.task_id)

    def artifact_page(self, after: str = "", limit: int = 100) -> list[Artifact]:
        """Return the first files whose names follow `after`, by name; fewer than `limit` are the last ones.

        Cost: a listing, and two requests to the store for each file.
        """
        names = self._engine.workspace.files.names_after(artifacts_path(self.task_id), after, limit)
        return [find_artifact(self._engine.workspace.files, self.task_id, name) for name in names]

    def artifact(self, name: str) -> bytes:
        """Return the bytes of a file. Raises UsageError if the task has no file of this name."""
        return read_artifact(self._engine.workspace.files, self.task_id, name)

    def artifact_info(self, name: str) -> Artifact:
        """Return the name, type, size and digest of a file. Raises UsageError if the task has no file of this name."""
        return find_artifact(self._engine.workspace.files, self.task_id, name)

    def artifact_bytes(self, name: str, start: int, length: int) -> bytes:
        """Return at most `length` bytes of a file from a position on; fewer only at its end.

        Raises UsageError if the task has no file of this name.
        """
        path = artifact_path(self.task_id, checked_name(name))
        if (data := self._engine.workspace.files.read(path, start, length)) is None:
            raise NotFound(f"no artifact {name[:80]!r} in this task")
        return data

    def iter_artifact(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a file of any size, piece by piece.

        Raises UsageError if the task has no file of this name.
        """
        return iter_pieces(
            self._engine.workspace.files, self.task_id, find_artifact(self._engine.workspace.files, self.task_id, name)
        )

    def artifact_url(self, name: str, seconds: int = 3600) -> str | None:
        """Return a URL that lets every holder read the file, or None if the workspace is a folder.

        The URL is valid for `seconds`, a week at most. Raises UsageError if the task has no file of this name.
        """
        if not 1 <= seconds <= MAX_LINK_SECONDS:
            raise UsageError(f"seconds: must be from 1 to {MAX_LINK_SECONDS}, a week (found {seconds})")
        artifact = find_artifact(self._engine.workspace.files, self.task_id, name)
        return self._engine.workspace.files.presigned_url(artifact_path(self.task_id, artifact.name), seconds)

    def upload(self, file: Path | BinaryIO, name: str | None = None) -> Artifact:
        """Store a file of any size with the task, and return it.

        A stream that cannot seek, such as the body of a request, is read once: it must return as many bytes as it is
        asked for, and fewer only at its end. If reading it fails, nothing is stored, and its error is raised.
        A message refers to it by name: `send(..., artifacts=[artifact.name])`. If the task has another file of the same
        name, both stay, and the new one gets a version number. The task need not be submitted yet.
        Raises UsageError if the file cannot be read, or if the task was erased.
        """
        check_not_erased(self._engine.workspace.files, check_task_id(self.task_id))
        return upload(self._engine.workspace.files, check_task_id(self.task_id), file, name)

    aartifacts = in_thread(artifacts)
    aartifact = in_thread(artifact)
    aupload = in_thread(upload, SUBMISSIONS)


def _cursor_of(task: Snapshot) -> str:
    """Return the cursor of the task's latest decision."""
    return str(Cursor(task.logs.generation, task.logs.events, task.logs.chunks, task.position.seq))
