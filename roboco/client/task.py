"""Task: one task as its caller sees it, from any process."""

import asyncio
import math
import time
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO, Literal, Unpack, overload

from roboco.adapters.artifacts.store import find_artifact, list_artifacts, pieces_of, read_artifact
from roboco.adapters.celery import names
from roboco.adapters.redis.stream.async_follower import AsyncFollower
from roboco.adapters.redis.stream.follower import RedisFollower
from roboco.client import session as sessions
from roboco.client.async_stream import AsyncFollowing
from roboco.client.attendance import Attendance
from roboco.client.commands import take
from roboco.client.options import Forked
from roboco.client.stream import Following, is_settled
from roboco.client.task_control import Control
from roboco.client.task_result import TaskResult
from roboco.client.team_lookup import resolve_team
from roboco.client.uploads import upload
from roboco.client.wiring import workspace_address
from roboco.domain.history.part import Artifact
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import check_task_id, of_tenant, tenant_of
from roboco.domain.paths import artifact_path
from roboco.domain.session.agent_session import (
    AgentSessionDelta,
    AgentSessionRecord,
    SessionForm,
    agent_delta,
    agent_session,
    is_roboto,
)
from roboco.domain.session.session import Session, SessionDelta
from roboco.domain.status import TaskStatus
from roboco.domain.stream.item import StreamItem, final_text
from roboco.domain.task_summary import TaskSummary
from roboco.domain.team.team import Team
from roboco.domain.team.tool_difference import ToolDifference
from roboco.engine.engine import Engine
from roboco.engine.frozen_teams import team_as_data
from roboco.engine.intake.answer import open_changes
from roboco.engine.record.summaries import known_summary
from roboco.errors import UsageError
from roboco.settings import Settings

LONGEST_LINK = 604_800
"""Seconds for which a link can be signed at most."""


class Task(Control):
    """A submitted task. Iterating over it yields the merged stream until the task has ended."""

    def __init__(self, task_id: str, engine: Engine, follower: RedisFollower, settings: Settings) -> None:
        super().__init__(task_id, engine, settings)
        self._follower = follower
        attendance = Attendance(engine, task_id, workspace_address(settings))
        self._following = Following(task_id, engine, follower, self.summary, attendance)
        self._async_following = AsyncFollowing(self._following, AsyncFollower(follower))

    def __iter__(self) -> Iterator[StreamItem]:
        return self.stream()

    def __repr__(self) -> str:
        return f"Task({self.task_id!r})"

    def stream(self, cursor: str | None = None) -> Iterator[StreamItem]:
        """Everything after the cursor, from the beginning without one, live until the task has ended.

        Items are the texts, tool calls, tool results and steps of the content and the execution events, in the
        order in which they happened. Each carries the cursor from which a later call goes on, without a
        repetition and without a hole. Ending the iteration does not touch the task. TransientError if Redis or the
        workspace has not answered for a minute.
        """
        return self._following.stream(cursor)

    def astream(self, cursor: str | None = None) -> AsyncGenerator[StreamItem, None]:
        """What `stream` yields, with the same cursors, for an event loop: `async for item in task.astream()`.

        All followers in a loop share one connection for what comes live, and some threads that read logs. One that
        takes its items slowly gets them from the log. UsageError at once if the cursor is none.
        """
        return self._async_following.stream(cursor)

    def text(self) -> Iterator[str]:
        """Yield the text of each agent's step as soon as the step is committed, live until the task has ended.

        A committed text stays valid: joined, the texts are exactly the text of all agents in the history. The text of
        an attempt that began again, was passed over or was lost is never yielded. Pieces of a step that is being made,
        which can become void, come from `stream` alone. TransientError as for `stream`.
        """
        return filter(None, map(final_text, self.stream()))

    async def atext(self) -> AsyncGenerator[str, None]:
        """What `text` yields, for an event loop: `async for text in task.atext()`."""
        async with aclosing(self.astream()) as items:
            async for item in items:
                if text := final_text(item):
                    yield text

    @property
    def status(self) -> TaskStatus:
        """The task's status now; UsageError if there is no such task.

        It costs a read of Redis, and if Redis has no open task of this id, a look at the summary in the workspace.
        """
        live = self._engine.board.load(self.task_id, 1)
        return self.summary().status if live is None or live.status.ended else live.status

    def result(self, timeout: float | None = None) -> TaskResult:
        """Wait until the task has ended or waits (for its user, client, an approval or a resume).

        It looks when it hears of a change, for which it holds a connection to Redis of its own, and once a second. If
        no worker attends to the task for ten seconds, it logs a warning that says which.
        TimeoutError after `timeout` seconds. TransientError if Redis or the workspace has not answered for a minute.
        """
        summary = self._following.settled(math.inf if timeout is None else time.monotonic() + timeout)
        if not is_settled(summary):
            raise TimeoutError(f"task {self.task_id!r} is {summary.status} after {timeout or 0:g} s{self._missing()}")
        return self._following.result(summary)

    async def aresult(self, timeout: float | None = None) -> TaskResult:
        """What `result` returns, for an event loop: it looks when it hears of a change, not all the time."""
        try:
            async with asyncio.timeout(timeout):
                summary = await self._async_following.settled()
        except TimeoutError as error:
            raise TimeoutError(f"task {self.task_id!r} goes on after {timeout or 0:g} s{self._missing()}") from error
        return await self._async_following.result(summary)

    def _missing(self) -> str:
        """Return that no worker attends to the task, as a part of a sentence, or ""."""
        missing = self._following.attendance.missing
        return f": {missing}" if missing else ""

    def fork(
        self,
        seq: int | None = None,
        message: str | None = None,
        *,
        team: Team | str | Path | None = None,
        **wished: Unpack[Forked],
    ) -> "Task":
        """Make a new task of the steps up to and including `seq`, or of all but the error that ended this one.

        It goes on with the `message`, `team` or `model` that are given; this one stays as it is. Steps with calls are
        taken with their results, so that none is made again. Files that the steps refer to are copied. Limits of steps
        and tokens count what was taken over, seconds count from now. UsageError says what is wrong.
        """
        task_id = of_tenant(tenant_of(self.task_id) or None, wished.get("task_id") or f"task_{uuid.uuid4().hex}")
        named = {name: value for name, value in wished.items() if value is not None} | {"task_id": task_id}
        data = None if team is None else team_as_data(resolve_team(self._settings, team))
        asked = named | {"source": self.task_id, "seq": seq, "message": message, "team": data}
        take(self._engine, self._settings, names.FORK, asked, "")
        return Task(task_id, self._engine, self._follower, self._settings)

    @overload
    def session(self, *, form: Literal["roboco"] = "roboco") -> Session: ...

    @overload
    def session(self, *, form: Literal["roboto"]) -> AgentSessionRecord: ...

    def session(self, *, form: SessionForm = "roboco") -> Session | AgentSessionRecord:
        """The task as a conversation: one message for each step, and one for a turn that is being made.

        The form "roboto" has the names, roles and statuses of roboto.ai's sessions.
        """
        roboto, whole = is_roboto(form), sessions.session(self._engine, self.task_id)
        return agent_session(whole) if roboto else whole

    @overload
    def delta(self, token: str = "", *, form: Literal["roboco"] = "roboco") -> SessionDelta: ...

    @overload
    def delta(self, token: str = "", *, form: Literal["roboto"]) -> AgentSessionDelta: ...

    def delta(self, token: str = "", *, form: SessionForm = "roboco") -> SessionDelta | AgentSessionDelta:
        """What is new in the session since the delta that gave this token, or all of it without one.

        A client first drops its messages from `rewind_to` on, where that is given, and then puts `messages_by_idx` in
        their places: then it holds what `session` returns. One request to Redis if nothing is new, two while tools run;
        of a task that Redis has forgotten, one look at its summary.
        """
        roboto, new = is_roboto(form), sessions.delta(self._engine, self.task_id, token)
        return agent_delta(new) if roboto else new

    def history(self) -> list[TaskStep]:
        """The committed steps."""
        return list(self._engine.histories.read(self.task_id))

    def tool_changes(self) -> list[ToolDifference]:
        """The changed tools of open calls, which a person has yet to approve or deny; what has changed of each.

        Of a text that is longer than 4,000 characters it holds that many, from shortly before the first difference.
        """
        return open_changes(self._engine, self.task_id)

    def summary(self) -> TaskSummary:
        """The task at a glance, as it stands now; UsageError if there is no such task."""
        stored = known_summary(self._engine, self.task_id)
        live = None if stored.status.ended else self._engine.board.load(self.task_id, 1)
        if live is None:
            return stored
        if live.status.ended:  # the workspace is being completed: not ended before that is done
            return stored.model_copy(update={"status": TaskStatus.RUNNING, "steps": live.seq})
        state = live.state
        return stored.model_copy(
            update={
                "status": live.status,
                "reason": live.reason,
                "steps": live.seq,
                "tokens_in": state.tokens_in,
                "tokens_out": state.tokens_out,
                "cost": state.cost,
                "agents": state.agents,
                "tools": state.tools,
            }
        )

    def artifacts(self) -> list[Artifact]:
        """The task's files by name, each with its type, size, version and the step that wrote it."""
        return list_artifacts(self._engine.files, self.task_id)

    def artifact(self, name: str) -> bytes:
        """The bytes of one of the task's files; UsageError if there is none of this name."""
        return read_artifact(self._engine.files, self.task_id, name)

    def artifact_pieces(self, name: str) -> Iterator[bytes]:
        """The bytes of one of the task's files, of any size, piece by piece."""
        return pieces_of(self._engine.files, self.task_id, find_artifact(self._engine.files, self.task_id, name))

    def artifact_link(self, name: str, seconds: int = 3600) -> str | None:
        """Return a URL from which anybody may read the file for so many seconds, a week at most.

        None if the workspace is a folder.
        """
        if not 1 <= seconds <= LONGEST_LINK:
            raise UsageError(f"seconds: must be from 1 to {LONGEST_LINK}, a week (found {seconds})")
        artifact = find_artifact(self._engine.files, self.task_id, name)
        return self._engine.files.link(artifact_path(self.task_id, artifact.name), seconds)

    def upload(self, file: Path | BinaryIO, name: str | None = None) -> Artifact:
        """Store a file of any size with the task, for a message to bring it: `send(..., artifacts=[artifact.name])`.

        Another file of the same name stays, and this one gets a version number. The task need not be submitted yet.
        """
        return upload(self._engine.files, check_task_id(self.task_id), file, name)
