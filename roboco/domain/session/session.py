"""Session: a task as its clients show it, from the history and the state of the turn in flight.

The index of a step's message is the position of the step, and never changes. The turn in flight has the next one.
"""

import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, assert_never

from pydantic import Field

from roboco.domain.history.part import (
    ArtifactPart,
    ErrorPart,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from roboco.domain.history.step import ORCHESTRATOR, TOOL_EXECUTOR, USER, TaskStep
from roboco.domain.schema import RecordedCaller, RecordModel
from roboco.domain.session.goal import SessionGoal
from roboco.domain.status import TaskStatus
from roboco.errors import UsageError

MAX_TITLE_CHARS = 80
"""The longest title that is derived from a text, in characters."""
_STOPPED = "stopped"
_TOKEN = re.compile(r"([0-9a-f]*)" + r"\.([0-9]{1,15})" * 4)


class SessionRole(StrEnum):
    """The sender of a message; `system` is Roboco, for instance with the results of tools."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"


_ROLES = {USER: SessionRole.USER, TOOL_EXECUTOR: SessionRole.SYSTEM, ORCHESTRATOR: SessionRole.SYSTEM}


class MessageStatus(StrEnum):
    """The status of a message."""

    NOT_STARTED = "not_started"
    GENERATING = "generating"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    def is_terminal(self) -> bool:
        """Return True if the message no longer changes."""
        return self not in (MessageStatus.NOT_STARTED, MessageStatus.GENERATING)


class SessionText(RecordModel):
    """Text of an agent or a user."""

    content_type: Literal["text"] = "text"
    text: str


class SessionToolUse(RecordModel):
    """A request of an agent to run a tool."""

    content_type: Literal["tool_use"] = "tool_use"
    tool_name: str
    tool_use_id: str
    input: dict[str, Any] | None = None
    raw_request: Annotated[dict[str, Any] | None, Field(exclude_if=operator.not_)] = None
    """The request as the model wrote it, in records of other programs."""


class SessionToolResult(RecordModel):
    """The result of a tool."""

    content_type: Literal["tool_result"] = "tool_result"
    tool_name: str
    tool_use_id: str
    runtime_ms: int
    """Wall-clock milliseconds."""
    status: Literal["success", "error"]
    raw_response: Any = None
    """The result, or the text of the error."""


class SessionArtifact(RecordModel):
    """A file of the workspace; `size` in bytes."""

    content_type: Literal["artifact"] = "artifact"
    uri: str
    mime_type: str
    size: int


class SessionError(RecordModel):
    """The reason for a failure."""

    content_type: Literal["error"] = "error"
    error_message: str
    """The reason for people."""
    error_code: str | None = None
    """The reason for programs."""


_Content = SessionText | SessionToolUse | SessionToolResult | SessionArtifact | SessionError
SessionContent = Annotated[_Content, Field(discriminator="content_type")]


class SessionMessage(RecordModel):
    """A committed step, or the turn in flight."""

    role: SessionRole
    status: MessageStatus
    content: list[SessionContent]
    created: datetime
    """The time in UTC; for the turn in flight that of the step before it."""
    agent_name: str
    step_id: str
    by: RecordedCaller = None
    """The caller whose message, stop or change of limits this is, if it was named."""
    item_id: RecordedCaller = None
    """The id of the item whose message, stop or change of limits this is, if it was sent as one."""

    @property
    def complete(self) -> bool:
        """Return True if the message is complete and without an error."""
        return self.status is MessageStatus.COMPLETED

    @property
    def unsuccessful(self) -> bool:
        """Return True if the message failed or was cancelled."""
        return self.status in (MessageStatus.FAILED, MessageStatus.CANCELLED)

    @property
    def text(self) -> str:
        """Return all text of the message, in order."""
        return "".join(part.text for part in self.content if isinstance(part, SessionText))


class Lineage(RecordModel):
    """The origin of a session: the task and position of the fork, or the step that called it."""

    forked_from_task_id: str | None = None
    forked_from_seq: int | None = None
    forked_by: RecordedCaller = None
    """The caller that forked the task, if it was named."""
    parent_task_id: str | None = None
    parent_step_id: str | None = None


class Session(RecordModel):
    """A whole session."""

    task_id: str
    status: TaskStatus
    reason: str
    title: str
    model_profile: str | None = None
    created: datetime
    messages: list[SessionMessage] = []
    goals: list[SessionGoal] = []
    lineage: Lineage = Lineage()
    continuation_token: str
    """The token with which the client requests later changes."""
    more: Annotated[bool, Field(exclude_if=operator.not_)] = False
    """True if further messages exist already: the delta of the token has the next ones."""


class SessionDelta(RecordModel):
    """The changes since a token: drop the messages from `rewind_to` on, then insert `messages_by_idx`.

    None is no change.
    """

    continuation_token: str
    messages_by_idx: dict[int, SessionMessage] = {}
    rewind_to: int | None = None
    status: TaskStatus | None = None
    reason: str | None = None
    title: str | None = None
    goals: list[SessionGoal] | None = None
    """All goals, not only the new ones."""
    more: Annotated[bool, Field(exclude_if=operator.not_)] = False
    """True if further changes exist already: the delta of this token has the next ones, and the status."""


@dataclass(frozen=True)
class TurnInFlight:
    """The state of the turn in flight."""

    seq: int
    agent_name: str
    step_id: str
    attempt: int
    started: bool
    """True once its first text has arrived."""
    text: str
    """The text of this attempt."""


@dataclass(frozen=True)
class ContinuationToken:
    """The state of a client."""

    generation: str = ""
    events: int = 0
    """The last number of the execution channel that the client has."""
    chunks: int = 0
    """The last number of the content channel that the client has."""
    steps: int = 0
    """The number of steps that the client has."""
    turn_attempt: int = 0
    """The attempt of the turn that the client has, or 0 for none."""

    def __str__(self) -> str:
        return f"{self.generation}.{self.events}.{self.chunks}.{self.steps}.{self.turn_attempt}"

    @classmethod
    def parse(cls, text: str) -> "ContinuationToken":
        """Return the token of its text.

        Raise UsageError if the text is not a token.
        """
        match = _TOKEN.fullmatch(text)
        if match is None:
            raise UsageError(f"token {text[:80]!r} is not one of a session or a delta")
        return cls(match[1], *map(int, match.groups()[1:]))


def message_of(step: TaskStep, names: Mapping[str, str]) -> SessionMessage:
    """Return the message of a step. `names` are the tools by the ids of the calls that the step may answer."""
    return SessionMessage(
        role=_ROLES.get(step.agent_name, SessionRole.ASSISTANT),
        status=_status(step),
        content=[content for part in step.shown.parts if (content := _content(part, names)) is not None],
        created=step.created_at,
        agent_name=step.agent_name,
        step_id=step.step_id,
        by=step.metadata.get("by"),
        item_id=step.metadata.get("item_id"),
    )


def messages_of(steps: Iterable[TaskStep], names_from: TaskStep | None = None) -> Iterator[SessionMessage]:
    """Yield the messages of consecutive steps. `names_from` is the step before them, which may contain their calls."""
    before = names_from
    for step in steps:
        yield message_of(step, {call.id: call.tool_name for call in before.calls} if before else {})
        before = step


def turn_message(turn: TurnInFlight, created: datetime) -> SessionMessage:
    """Return the message of the turn in flight, with its text so far."""
    return SessionMessage(
        role=SessionRole.ASSISTANT,
        status=MessageStatus.GENERATING if turn.started else MessageStatus.NOT_STARTED,
        content=[SessionText(text=turn.text)] if turn.text else [],
        created=created,
        agent_name=turn.agent_name,
        step_id=turn.step_id,
    )


def title_of(first: TaskStep) -> str:
    """Return the title of the first step, or the first line of its text that is not blank."""
    given = first.metadata.get("title")
    if isinstance(given, str) and given:
        return given
    line = next((line.strip() for line in first.text.splitlines() if line.strip()), "")
    return line if len(line) <= MAX_TITLE_CHARS else f"{line[: MAX_TITLE_CHARS - 1].rstrip()}…"


def delta(
    token: ContinuationToken,
    now: ContinuationToken,
    steps: Sequence[TaskStep],
    turn: TurnInFlight | None,
    names_from: TaskStep | None,
) -> tuple[dict[int, SessionMessage], int | None]:
    """Return the messages that a client at `token` lacks, by index, and the index from which it first drops messages.

    `steps` are all from position `token.steps` on, `names_from` is the one before them. A turn that does not follow
    them was read at another moment and is left to the next delta. Attempts count within a generation.
    """
    messages = {step.seq: message for step, message in zip(steps, messages_of(steps, names_from), strict=True)}
    void = token.turn_attempt != 0 and not steps
    if turn is not None and turn.seq == token.steps + len(steps):
        last = steps[-1] if steps else names_from
        if last is None:
            raise ValueError(f"the message of the turn at {turn.seq} needs the step before it: pass it as names_from")
        messages[turn.seq] = turn_message(turn, last.created_at)
        void = void and (token.generation, token.turn_attempt) != (now.generation, turn.attempt)
    return messages, token.steps if void else None


def _status(step: TaskStep) -> MessageStatus:
    if step.metadata.get("interrupted") is True:
        return MessageStatus.CANCELLED
    if step.error is None or step.agent_name in (USER, TOOL_EXECUTOR):
        return MessageStatus.COMPLETED
    stopped = step.agent_name == ORCHESTRATOR and step.error.code == _STOPPED
    return MessageStatus.CANCELLED if stopped else MessageStatus.FAILED


def _content(part: Part, names: Mapping[str, str]) -> SessionContent | None:
    match part:
        case TextPart():
            return SessionText(text=part.text)
        case ToolCallPart(tool_call=call):
            return SessionToolUse(tool_name=call.tool_name, tool_use_id=call.id, input=call.args)
        case ToolResultPart(tool_result=result):
            return SessionToolResult(
                tool_name=names.get(result.tool_call_id, ""),
                tool_use_id=result.tool_call_id,
                runtime_ms=result.runtime_ms,
                status="error" if result.is_error else "success",
                raw_response=result.error if result.is_error and result.error is not None else result.result,
            )
        case ArtifactPart(artifact=artifact):
            return SessionArtifact(uri=artifact.uri, mime_type=artifact.mime_type, size=artifact.size)
        case ErrorPart():
            return SessionError(error_message=part.message, error_code=part.code)
        case UnknownPart():
            return None
        case unknown:
            assert_never(unknown)
