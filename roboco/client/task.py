"""Task: one task as its caller sees it, from any process that reaches Redis and the workspace."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from functools import cached_property
from pathlib import Path
from typing import Unpack

from roboco.broker import names
from roboco.client.async_stream import AsyncTaskStream, without_gaps
from roboco.client.blocking import iterate, wait_for
from roboco.client.in_thread import SUBMISSIONS, in_thread
from roboco.client.operator import what_if as comparisons
from roboco.client.operator.what_if import RunningComparison, WhatIfOptions
from roboco.client.options import ForkOptions, LimitOptions
from roboco.client.stream import TaskStream, WorkerCheck
from roboco.client.sub_task_stream import SubTaskStream
from roboco.client.task_commands import handle_task_command
from roboco.client.task_control import TaskControl
from roboco.client.task_files import TaskFiles
from roboco.client.task_record import TaskRecord
from roboco.client.task_result import TaskResult
from roboco.client.team_lookup import resolve_team
from roboco.domain.ids import qualified_id, tenant_of
from roboco.domain.session.session import ContinuationToken
from roboco.domain.status import TaskStatus
from roboco.domain.stream.item import StreamItem, final_text
from roboco.domain.team.team import Team
from roboco.engine.accept.wait_cause import current_cause
from roboco.engine.engine import Engine
from roboco.engine.workspace_records import team_as_data
from roboco.redis.stream.async_follower import AsyncFollower
from roboco.redis.stream.follower import RedisFollower
from roboco.settings import Settings


class Task(TaskControl, TaskRecord, TaskFiles):
    """A submitted task. Iterating over it yields the merged stream until the task has ended."""

    def __init__(self, task_id: str, engine: Engine, follower: RedisFollower, settings: Settings) -> None:
        super().__init__(task_id, engine, settings)
        self._follower = follower

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
        summary = self._run(task_id).settled_summary
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
        task = Task(task_id, self._engine, self._follower, self._settings)
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
        task = Task(self.stored_summary().retried_as, self._engine, self._follower, self._settings)
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
        return RunningComparison(self._engine, self._run, self.task_id, *started)

    def comparison(self, what_if: str) -> RunningComparison:
        """Return the comparison of this id, which `what_if` has started. Raises UsageError if there is none."""
        found = comparisons.find(self._engine.workspace, self.task_id, what_if)
        return RunningComparison(self._engine, self._run, self.task_id, *found)

    def _run(self, task_id: str) -> TaskRecord:
        return TaskRecord(task_id, self._engine, self._settings)

    afork = in_thread(fork, SUBMISSIONS)
    aretry = in_thread(retry, SUBMISSIONS)
    awhat_if = in_thread(what_if, SUBMISSIONS)
