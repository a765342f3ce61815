"""The classes of the design documents, copied literally: one namespace a document.

Document 000 has tables; its classes have their fields. Document 002 has the parts of 001, but for files.
"""

# ruff: noqa: UP006, UP035, UP045 - as the documents have them

import uuid
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Dict, List, Literal, Optional, Union

from pydantic import BaseModel, Field


class TextPart(BaseModel):
    type: Literal["text"] = "text"
    text: str


class ToolCall(BaseModel):
    id: str = Field(default_factory=lambda: f"tc_{uuid.uuid4().hex}")
    tool_name: str
    args: Dict[str, Any]


class ToolCallPart(BaseModel):
    type: Literal["tool_call"] = "tool_call"
    tool_call: ToolCall


class Document000:
    class ToolResult(BaseModel):
        tool_call_id: str
        result: Any
        is_error: bool = False

    class ToolResultPart(BaseModel):
        type: Literal["tool_result"] = "tool_result"
        tool_result: "Document000.ToolResult"

    class TaskStep(BaseModel):
        id: str
        parent_id: Optional[str] = None
        agent_name: str
        parts: List[Union[TextPart, ToolCallPart, "Document000.ToolResultPart"]]
        created_at: datetime
        metadata: Optional[Dict[str, Any]] = None


class Document001:
    class ToolResult(BaseModel):
        tool_call_id: str
        result: str  # The stdout or serialized result from the tool
        error: Optional[str] = None  # Stderr if the tool failed

    class ToolResultPart(BaseModel):
        type: Literal["tool_result"] = "tool_result"
        tool_result: "Document001.ToolResult"

    class Artifact(BaseModel):
        uri: str  # e.g., "file://artifacts/main.py"
        mime_type: str

    class ArtifactPart(BaseModel):
        type: Literal["artifact"] = "artifact"
        artifact: "Document001.Artifact"

    class TaskStep(BaseModel):
        step_id: str = Field(default_factory=lambda: f"step_{uuid.uuid4().hex}")
        timestamp: datetime = Field(default_factory=lambda: datetime.now(UTC).replace(tzinfo=None))  # utcnow()
        agent_name: str  # The agent or system component that generated this step
        parts: List[Union[TextPart, ToolCallPart, "Document001.ToolResultPart", "Document001.ArtifactPart"]]

    class StreamChunk(BaseModel):
        type: Literal["content_chunk"] = "content_chunk"
        text: str

    class TaskStartEvent(BaseModel):
        type: Literal["event_task_start"] = "event_task_start"
        task_id: str
        timestamp: datetime

    class AgentHandoffEvent(BaseModel):
        type: Literal["event_agent_handoff"] = "event_agent_handoff"
        from_agent: str
        to_agent: str
        reason: str

    class ToolCallEvent(BaseModel):
        type: Literal["event_tool_call"] = "event_tool_call"
        tool_call: ToolCall

    class ToolResultEvent(BaseModel):
        type: Literal["event_tool_result"] = "event_tool_result"
        tool_result: "Document001.ToolResult"


class Document002:
    class ArtifactPart(BaseModel):
        artifact_id: str
        uri: str  # e.g., "file://./artifacts/{artifact_id}.bin"
        mime_type: str

    class TaskStep(BaseModel):
        step_id: str = Field(default_factory=lambda: f"step_{uuid.uuid4().hex}")
        agent_name: str
        parts: List[Union[TextPart, ToolCallPart, "Document001.ToolResultPart", "Document002.ArtifactPart"]]


class AgentContentType(StrEnum):
    ERROR = "error"
    TEXT = "text"
    TOOL_RESULT = "tool_result"
    TOOL_USE = "tool_use"


class AgentErrorContent(BaseModel):
    content_type: Literal[AgentContentType.ERROR] = AgentContentType.ERROR
    error_code: str | None = None
    error_message: str


class AgentTextContent(BaseModel):
    content_type: Literal[AgentContentType.TEXT] = AgentContentType.TEXT
    text: str


class AgentToolResultContent(BaseModel):
    content_type: Literal[AgentContentType.TOOL_RESULT] = AgentContentType.TOOL_RESULT
    raw_response: dict[str, Any] | None = None
    runtime_ms: int
    status: str
    tool_name: str
    tool_use_id: str


class AgentToolUseContent(BaseModel):
    content_type: Literal[AgentContentType.TOOL_USE] = AgentContentType.TOOL_USE
    input: dict[str, Any] | None = None
    raw_request: dict[str, Any] | None = None
    tool_name: str
    tool_use_id: str


AgentContent = AgentTextContent | AgentToolUseContent | AgentToolResultContent | AgentErrorContent


class AgentMessageStatus(StrEnum):
    CANCELLED = "cancelled"
    COMPLETED = "completed"
    FAILED = "failed"
    GENERATING = "generating"
    NOT_STARTED = "not_started"


class AgentRole(StrEnum):
    ASSISTANT = "assistant"
    ROBOTO = "roboto"
    USER = "user"


class AgentSessionStatus(StrEnum):
    CLIENT_TOOL_TURN = "client_tool_turn"
    GOALS_FAILED = "goals_failed"
    NOT_STARTED = "not_started"
    ROBOTO_TURN = "roboto_turn"
    USER_TURN = "user_turn"


class AgentSessionGoalRecord(BaseModel):
    """The record that document 003 names and does not define: as roboto.ai's package 0.45 defines it."""

    goal_type: str
    goal_data: dict[str, Any]
    status: Literal["pending", "achieved", "failed"]
    message_sequence_num: int
    created: datetime
    concluded_at: datetime | None = None


class AgentMessage(BaseModel):
    content: list[AgentContent]
    created: datetime = Field(default_factory=lambda: datetime.now(UTC))
    role: AgentRole
    status: AgentMessageStatus = AgentMessageStatus.NOT_STARTED


class AgentSessionDelta(BaseModel):
    continuation_token: str
    goals: list[AgentSessionGoalRecord] | None = None
    messages_by_idx: dict[int, AgentMessage]
    status: AgentSessionStatus | None = None
    title: str | None = None


class AgentSessionRecord(BaseModel):
    continuation_token: str
    created: datetime
    created_by: str
    forked_from_message_sequence_num: int | None = None
    forked_from_session_id: str | None = None
    goals: list[AgentSessionGoalRecord] | None = None
    messages: list[AgentMessage] = []
    model_profile: str | None = None
    org_id: str
    session_id: str
    status: AgentSessionStatus
    title: str | None = None

    @property
    def chat_id(self) -> str:
        return self.session_id


class ClientViewingContext(BaseModel):
    dataset_ids: list[str] = []
    file_ids: list[str] = []
    misc_context: dict[str, Any] | None = None
    visualizer_state: dict[str, Any] | None = None
