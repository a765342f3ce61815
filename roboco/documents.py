"""The names of the design documents, as aliases of Roboco's own classes, with the forms of their records.

documents.in_form(item, "001")        a live item as document 001 has it
documents.read(line)                  a step, a chunk or an event, by the names of any document
documents.Router(team)                `select_next_agent(history)` of document 004
"""

# ruff: noqa: I001 - a name "as" itself is public to type checkers; the sorting of imports would take each out of its list

import json
from enum import StrEnum
from typing import Any

from roboco.client.orchestrator import Orchestrator as Orchestrator
from roboco.domain.agent_events import (
    AgentErrorEvent as AgentErrorEvent, AgentEvent as AgentEvent, AgentStartTextEvent as AgentStartTextEvent,
    AgentTextDeltaEvent as AgentTextDeltaEvent, AgentTextEndEvent as AgentTextEndEvent,
    AgentToolResultEvent as AgentToolResultEvent, AgentToolUseEvent as AgentToolUseEvent,
    agent_events as agent_events,
)  # fmt: skip
from roboco.domain.decision.router import TeamRouter
from roboco.domain.history.part import (
    Artifact as Artifact, ArtifactPart as ArtifactPart, Part, TextPart as TextPart, ToolCall as ToolCall,
    ToolCallPart as ToolCallPart, ToolResult as ToolResult, ToolResultPart as ToolResultPart,
)  # fmt: skip
from roboco.domain.history.step import TaskStep as TaskStep
from roboco.domain.inbox.attachments import ClientViewingContext as ClientViewingContext, ToolScope
from roboco.domain.inbox.attachments import ClientTool
from roboco.domain.reading_form import (
    DocumentForm as DocumentForm, StreamForm as StreamForm, in_form as in_form, steps_in_form as steps_in_form,
)  # fmt: skip
from roboco.domain.session.agent_session import (
    AgentContent as AgentContent, AgentMessage as AgentMessage,
    AgentRole as AgentRole, AgentSessionDelta as AgentSessionDelta, AgentSessionGoalRecord as AgentSessionGoalRecord,
    AgentSessionRecord as AgentSessionRecord, AgentSessionStatus as AgentSessionStatus,
    AgentToolResultContent as AgentToolResultContent, AgentToolUseContent as AgentToolUseContent,
)  # fmt: skip
from roboco.domain.session.session import MessageStatus, SessionError, SessionText
from roboco.domain.stream.event import (
    AgentHandedOff, AgentSelected, AnyEvent, ExecutionEvent as ExecutionEvent, StepEnded, StreamChunk as StreamChunk,
    TaskEnded, TaskStarted, ToolCalled, ToolReturned, UserInterrupted, parse_stream_message,
)  # fmt: skip
from roboco.domain.team.model_offer import ModelProfileInfo
from roboco.domain.team.team import Team as Team

Router: type[TeamRouter] = TeamRouter
AgentContentType = StrEnum("AgentContentType", ["ERROR", "TEXT", "TOOL_RESULT", "TOOL_USE"])
StepPart = Part
TaskStartEvent = TaskStarted
TaskStart = TaskStarted
AgentSelectEvent = AgentSelected
AgentSelect = AgentSelected
AgentHandoffEvent = AgentHandedOff
ToolCallEvent = ToolCalled
ToolResultEvent = ToolReturned
StepEndEvent = StepEnded
UserInterruptEvent = UserInterrupted
UserInterrupt = UserInterrupted
TaskEndEvent = TaskEnded
TaskEnd = TaskEnded
AgentTextContent = SessionText
AgentErrorContent = SessionError
AgentMessageStatus = MessageStatus
AnalysisScope = ToolScope
ClientToolSpec = ClientTool
ModelProfileResponse = ModelProfileInfo


def read(record: str | bytes | dict[str, Any]) -> TaskStep | AnyEvent | StreamChunk:
    """Return the step, chunk or event of a record by the names of any document. A missing time is the present one.

    Raises ValueError if it is none of them, or is nested too deeply.
    """
    try:
        data = json.loads(record) if isinstance(record, str | bytes) else record
    except RecursionError as error:
        raise ValueError("a record is nested too deeply to be read") from error
    if not isinstance(data, dict):
        raise ValueError(f"a record is a JSON object (found {str(data)[:60]!r})")
    return TaskStep.model_validate(data) if "parts" in data else parse_stream_message(data)
