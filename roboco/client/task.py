"""Task: one task as its caller sees it, from any process."""

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, Unpack

from roboco.adapters.artifacts import find_artifact, list_artifacts, pieces_of, read_artifact
from roboco.adapters.celery import names
from roboco.adapters.redis.follower import RedisFollower
from roboco.client import sessions
from roboco.client.following import Following, patiently
from roboco.client.intake import take
from roboco.client.receipt import Receipt, find_receipt
from roboco.client.teams import chosen_team
from roboco.client.uploads import upload
from roboco.client.wishes import Forked, Raised, Said
from roboco.domain.ids import check_task_id, of_tenant, tenant_of
from roboco.domain.part import Artifact
from roboco.domain.paths import artifact_path, summary_path
from roboco.domain.session import Session, SessionDelta
from roboco.domain.status import TaskStatus
from roboco.domain.step import TaskStep, last_said
from roboco.domain.summary import TaskSummary
from roboco.domain.team import Team
from roboco.domain.view import StreamItem
from roboco.engine.engine import Engine
from roboco.engine.message import WhileWorking
from roboco.engine.teams import team_as_data
from roboco.errors import UsageError
from roboco.settings import Settings


@dataclass(frozen=True)
class TaskResult:
    """What a task has come to: `text` is what an agent said last, if one has said something."""

    task_id: str
    status: TaskStatus
    reason: str
    text: str


class Task:
    """A submitted task. Iterating over it yields the merged stream until the task has ended.

    What is sent to it is accepted when the call returns, and is done once, however often it is sent with the same
    `item_id`. UsageError if it is wrong, TransientError if a server does not answer: then it may be sent again.
    """

    def __init__(self, task_id: str, engine: Engine, follower: RedisFollower, settings: Settings) -> None:
        self.task_id = task_id
        self._engine = engine
        self._follower = follower
        self._settings = settings
        self._following = Following(task_id, engine, follower, self.summary)

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

    def result(self, timeout: float | None = None) -> TaskResult:
        """Wait until the task has ended or waits (for its user, client, an approval or a resume).

        TimeoutError after `timeout` seconds.

        TransientError if Redis or the workspace has not answered for a minute.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            summary = patiently(self._engine, self.task_id, self.summary)
            if summary.status.ended or summary.status.waiting:
                return TaskResult(self.task_id, summary.status, summary.reason, self._last_text())
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"task {self.task_id!r} is {summary.status} after {timeout:g} s")
            time.sleep(0.05)

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
        data = None if team is None else team_as_data(chosen_team(self._settings, team))
        asked = named | {"source": self.task_id, "seq": seq, "message": message, "team": data}
        take(self._engine, self._settings, names.FORK, asked, "")
        return Task(task_id, self._engine, self._follower, self._settings)

    def receipt(self, item_id: str) -> Receipt:
        """What has become by now of what was sent with this item id; UsageError if the task got none."""
        return find_receipt(self._engine, self.task_id, item_id)

    def session(self) -> Session:
        """The task as a conversation: one message for each step, and one for a turn that is being made."""
        return sessions.session(self._engine, self.task_id)

    def delta(self, token: str = "") -> SessionDelta:
        """What is new in the session since the delta that gave this token, or all of it without one.

        A client first drops its messages from `rewind_to` on, where that is given, and then puts `messages_by_idx` in
        their places: then it holds what `session` returns. One request to Redis if nothing is new, two while tools run;
        of a task that Redis has forgotten, one look at its summary.
        """
        return sessions.delta(self._engine, self.task_id, token)

    def history(self) -> list[TaskStep]:
        """The committed steps."""
        return list(self._engine.histories.read(self.task_id))

    def summary(self) -> TaskSummary:
        """The task at a glance, as it stands now; UsageError if there is no such task."""
        data = self._engine.files.get(summary_path(self.task_id))
        if data is None:
            raise UsageError(f"no task {self.task_id!r} in this workspace")
        stored = TaskSummary.model_validate_json(data)
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
        """A URL from which anybody may read the file for so many seconds; None where the store has no such thing."""
        artifact = find_artifact(self._engine.files, self.task_id, name)
        return self._engine.files.link(artifact_path(self.task_id, artifact.name), seconds)

    def upload(self, file: Path | BinaryIO, name: str | None = None) -> Artifact:
        """Store a file of any size with the task, for a message to bring it: `send(..., artifacts=[artifact.name])`.

        Another file of the same name stays, and this one gets a version number. The task need not be submitted yet.
        """
        return upload(self._engine.files, check_task_id(self.task_id), file, name)

    def _last_text(self) -> str:
        return last_said(self._following.read_steps(0))

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
