"""AgentSessionRecord: a session in the form of roboto.ai, for readers that know its objects.

Names, roles and statuses are those of that form. It has fewer statuses than a task, no files and no end. Therefore
fields of Roboco are added: `task_status`, `reason`, `agent_name`, `step_id` and `rewind_to`.
"""

import json
import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self, assert_never, get_args

from pydantic import Field

from roboco.domain.history.step import USER
from roboco.domain.ids import tenant_of
from roboco.domain.schema import RecordModel
from roboco.domain.session.goal import SessionGoal
from roboco.domain.session.session import (
    MessageStatus,
    Session,
    SessionArtifact,
    SessionContent,
    SessionDelta,
    SessionError,
    SessionMessage,
    SessionRole,
    SessionText,
    SessionToolResult,
    SessionToolUse,
)
from roboco.domain.status import TaskStatus
from roboco.errors import UsageError

SessionForm = Literal["roboco", "roboto", "003"]
"""The form of a session: Roboco's own, with each status of a task, or that of roboto.ai, which document 003 has."""


class AgentRole(StrEnum):
    """The sender of a message; `roboto` sends results of tools and information of the system."""

    USER = "user"
    ASSISTANT = "assistant"
    ROBOTO = "roboto"


class AgentSessionStatus(StrEnum):
    """The party that acts next. A session without a message is `not_started`; a task always has one."""

    NOT_STARTED = "not_started"
    USER_TURN = "user_turn"
    ROBOTO_TURN = "roboto_turn"
    CLIENT_TOOL_TURN = "client_tool_turn"
    GOALS_FAILED = "goals_failed"


AgentToolUseContent = SessionToolUse
"""A request of an agent to run a tool, whose form is Roboco's own."""


class AgentToolResultContent(RecordModel):
    """The result of a tool."""

    content_type: Literal["tool_result"] = "tool_result"
    tool_name: str
    tool_use_id: str
    runtime_ms: int
    status: str
    raw_response: dict[str, Any] | None = None
    """The result. One that is not an object is wrapped as `result`, and an error's text as `error`."""


_Content = SessionText | AgentToolUseContent | AgentToolResultContent | SessionError
AgentContent = Annotated[_Content, Field(discriminator="content_type")]


class AgentMessage(RecordModel):
    """A message of a session: a step of the task, or the turn in flight."""

    role: AgentRole
    status: MessageStatus = MessageStatus.NOT_STARTED
    content: list[AgentContent]
    created: datetime = Field(default_factory=lambda: datetime.now(UTC))
    agent_name: str = ""
    step_id: str = ""

    @classmethod
    def text(cls, text: str, role: AgentRole = AgentRole.USER) -> Self:
        """Return a message of this text alone."""
        return cls(role=role, content=[SessionText(text=text)])

    def is_complete(self) -> bool:
        """Return True if the message has been generated completely and without an error."""
        return self.status is MessageStatus.COMPLETED

    def is_unsuccessful(self) -> bool:
        """Return True if the generation failed or was cancelled."""
        return self.status in (MessageStatus.FAILED, MessageStatus.CANCELLED)


class AgentSessionGoalRecord(RecordModel):
    """A goal of a session."""

    goal_type: str
    goal_data: dict[str, Any]
    """The goal as its client has declared it, if it is one of roboto.ai's; else its name and description."""
    status: Literal["pending", "achieved", "failed"]
    message_sequence_num: int
    created: datetime
    concluded_at: datetime | None = None
    achieve_tool_use_id: str | None = None
    outcome: Any = None
    """The arguments of the call that has achieved the goal."""


def goal_record(goal: SessionGoal) -> AgentSessionGoalRecord:
    """Return the goal in roboto.ai's form."""
    data = declared_data(goal) or {"goal_type": goal.name, "description": goal.description}
    return AgentSessionGoalRecord(
        goal_type=data["goal_type"],
        goal_data=data,
        status="pending" if goal.status == "open" else goal.status,
        message_sequence_num=goal.declared_seq,
        created=goal.declared_at,
        concluded_at=goal.achieved_at or goal.failed_at,
        achieve_tool_use_id=goal.tool_use_id,
        outcome=goal.outcome,
    )


def declared_data(goal: SessionGoal) -> dict[str, Any] | None:
    """Return the goal as a client of roboto.ai has declared it, or None if none has. Its schema describes it."""
    try:
        data = json.loads(goal.outcome_schema.get("description", ""))
    except (TypeError, ValueError, RecursionError):
        return None
    known = isinstance(data, dict) and data.get("goal_type") == NUMBER.sub("", goal.name)
    return data if known else None


NUMBER: Final = re.compile(r"_\d+$")
"""The end of the name of a further goal of one type."""


class AgentSessionRecord(RecordModel):
    """A whole session."""

    session_id: str
    chat_id: str = Field(default_factory=lambda given: given["session_id"])
    """The earlier name of `session_id`."""
    org_id: str
    """The tenant of the task, or empty."""
    created_by: str
    """The author of the first message as the history names it: "user"."""
    created: datetime
    status: AgentSessionStatus
    title: str | None = None
    model_profile: str | None = None
    messages: list[AgentMessage] = []
    goals: list[AgentSessionGoalRecord] | None = None
    forked_from_session_id: str | None = None
    forked_from_message_sequence_num: int | None = None
    continuation_token: str
    task_status: TaskStatus | None = None
    reason: str = ""


class AgentSessionDelta(RecordModel):
    """The changes since a token: drop the messages from `rewind_to` on, then insert `messages_by_idx`.

    None is no change.
    """

    continuation_token: str
    messages_by_idx: dict[int, AgentMessage] = {}
    status: AgentSessionStatus | None = None
    title: str | None = None
    goals: list[AgentSessionGoalRecord] | None = None
    """All goals, not only the new ones."""
    task_status: TaskStatus | None = None
    reason: str | None = None
    rewind_to: int | None = None


def agent_session(session: Session) -> AgentSessionRecord:
    """Return the session in roboto.ai's form."""
    return AgentSessionRecord(
        session_id=session.task_id,
        org_id=tenant_of(session.task_id),
        created_by=USER,
        created=session.created,
        status=_status_of(session),
        title=session.title or None,
        model_profile=session.model_profile,
        messages=[agent_message(message) for message in session.messages],
        goals=list(map(goal_record, session.goals)),
        forked_from_session_id=session.lineage.forked_from_task_id,
        forked_from_message_sequence_num=session.lineage.forked_from_seq,
        continuation_token=session.continuation_token,
        task_status=session.status,
        reason=session.reason,
    )


def _status_of(session: Session) -> AgentSessionStatus:
    """Return the status of the session. While messages are to follow, it is the team's turn: the client goes on."""
    if not session.messages:
        return AgentSessionStatus.NOT_STARTED
    return AgentSessionStatus.ROBOTO_TURN if session.more else agent_status(session.status)


def agent_delta(delta: SessionDelta) -> AgentSessionDelta:
    """Return the delta in roboto.ai's form."""
    return AgentSessionDelta(
        continuation_token=delta.continuation_token,
        messages_by_idx={index: agent_message(message) for index, message in delta.messages_by_idx.items()},
        status=AgentSessionStatus.ROBOTO_TURN if delta.more else delta.status and agent_status(delta.status),
        title=delta.title,
        goals=None if delta.goals is None else list(map(goal_record, delta.goals)),
        task_status=delta.status,
        reason=delta.reason,
        rewind_to=delta.rewind_to,
    )


def is_roboto(form: SessionForm) -> bool:
    """Return True for the form of roboto.ai, False for Roboco's own.

    Raise UsageError for any other form.
    """
    if form not in get_args(SessionForm):
        raise UsageError(f"form: must be one of 'roboco', 'roboto', '003' (found {str(form)[:60]!r})")
    return form != "roboco"


_ROLES = {
    SessionRole.USER: AgentRole.USER,
    SessionRole.ASSISTANT: AgentRole.ASSISTANT,
    SessionRole.SYSTEM: AgentRole.ROBOTO,
}


def agent_status(status: TaskStatus) -> AgentSessionStatus:
    """Return the party that acts next.

    Before a decision of a person, and after an end, that is the user: the form has no status for them, and a client
    polls while it is the team's turn.
    """
    match status:
        case TaskStatus.QUEUED | TaskStatus.RUNNING:
            return AgentSessionStatus.ROBOTO_TURN
        case TaskStatus.USER_TURN | TaskStatus.APPROVAL | TaskStatus.PAUSED:
            return AgentSessionStatus.USER_TURN
        case TaskStatus.COMPLETED | TaskStatus.FAILED | TaskStatus.CANCELLED:
            return AgentSessionStatus.USER_TURN
        case TaskStatus.CLIENT_TOOL_TURN:
            return AgentSessionStatus.CLIENT_TOOL_TURN
        case TaskStatus.GOALS_FAILED:
            return AgentSessionStatus.GOALS_FAILED
        case unknown:
            assert_never(unknown)


_INTERRUPTED = SessionError(error_message="The user interrupted the agent.", error_code="interrupted")
"""The form gives the reason of a cancelled message as that of a failed one."""


def agent_message(message: SessionMessage) -> AgentMessage:
    """Return the message in roboto.ai's form."""
    content = [_content(part) for part in message.content]
    if message.status is MessageStatus.CANCELLED and not any(isinstance(part, SessionError) for part in content):
        content.append(_INTERRUPTED)
    return AgentMessage(
        role=_ROLES[message.role],
        status=message.status,
        content=content,
        created=message.created,
        agent_name=message.agent_name,
        step_id=message.step_id,
    )


def _content(content: SessionContent) -> AgentContent:
    match content:
        case SessionText() | SessionError() | SessionToolUse():
            return content
        case SessionToolResult():
            return AgentToolResultContent(
                tool_name=content.tool_name,
                tool_use_id=content.tool_use_id,
                runtime_ms=content.runtime_ms,
                status=content.status,
                raw_response=_response(content),
            )
        case SessionArtifact():
            return SessionText(text=f"[file {content.uri}, {content.mime_type}, {content.size} bytes]\n")
        case unknown:
            assert_never(unknown)


def _response(content: SessionToolResult) -> dict[str, Any] | None:
    raw = content.raw_response
    if raw is None or isinstance(raw, dict):
        return raw
    return {"error" if content.status == "error" else "result": raw}
