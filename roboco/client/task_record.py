"""TaskRecord: everything that a caller reads of a task, as it is now or as its workspace has recorded it."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, overload

from roboco.client import session as sessions
from roboco.client.context_report import ContextReport, context_report, find_turn
from roboco.client.feedback import read_feedback, store_feedback
from roboco.client.in_thread import in_thread, run_in_thread
from roboco.client.pending_actions import PendingActions
from roboco.client.task_handle import TaskHandle
from roboco.client.task_result import state_of
from roboco.domain.decision.router import Router, route
from roboco.domain.feedback import Feedback
from roboco.domain.history.call_failure import CallFailure
from roboco.domain.history.lineage import parent_of
from roboco.domain.history.state import TaskState, fold
from roboco.domain.history.step import TaskStep, verify_chain
from roboco.domain.history.steps_on_demand import StepsOnDemand
from roboco.domain.limits import Limits
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
from roboco.domain.session.session import Session, SessionDelta
from roboco.domain.status import TaskStatus
from roboco.domain.stream.merged import Cursor
from roboco.domain.task_summary import TaskSummary
from roboco.domain.team.team import Team
from roboco.domain.team.tool_listing import ToolDifference
from roboco.engine.accept.answer import open_tool_changes
from roboco.engine.accept.at_rest import stays_at_rest
from roboco.engine.accept.evidence import current_reason
from roboco.engine.accept.wait_cause import why_unattended
from roboco.engine.record.call_failures import call_failures
from roboco.engine.record.recover import newest_step
from roboco.engine.record.tool_listings import left_out_tools
from roboco.errors import CorruptHistory
from roboco.ports.task_store import Snapshot


class TaskRecord(TaskHandle):
    """The state, the history and the conversation of a task.

    Methods raise UsageError if there is no such task, and TransientError if a server does not answer. `history`,
    `stored_summary`, `team`, `verify`, `call_failures`, and `recorded` with a `summary`, read the workspace alone.
    """

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
        """Return why the open task does not go on, with a remedy, or "" if no cause is known, as `why_unattended`."""
        return why_unattended(self._engine, self._settings.workspace_address, self.task_id)

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


def _cursor_of(task: Snapshot) -> str:
    """Return the cursor of the task's latest decision."""
    return str(Cursor(task.logs.generation, task.logs.events, task.logs.chunks, task.position.seq))
