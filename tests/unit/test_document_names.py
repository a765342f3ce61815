"""The names of the design documents are those of `roboco.documents`, each for the class that Roboco has."""

from typing import Any

import pytest

import roboco
from roboco import TaskStep, documents, parse_team
from roboco.domain.decision.action import Route
from roboco.domain.history.part import TextPart, ToolCall, ToolCallPart, ToolResult, ToolResultPart
from roboco.domain.history.step import TOOL_EXECUTOR
from roboco.domain.stream.item import (
    StepFinal,
    StreamItem,
    TextPartDelta,
    stream_item,
)
from tests.support import document_classes
from tests.unit.domain.steps import failed

EVENTS = {
    "TaskStartEvent": "TaskStarted",
    "AgentHandoffEvent": "AgentHandedOff",
    "ToolCallEvent": "ToolCalled",
    "ToolResultEvent": "ToolReturned",
    "AgentSelectEvent": "AgentSelected",
    "StepEndEvent": "StepEnded",
    "UserInterruptEvent": "UserInterrupted",
    "TaskStart": "TaskStarted",
    "AgentSelect": "AgentSelected",
    "UserInterrupt": "UserInterrupted",
    "TaskEnd": "TaskEnded",
    "StreamChunk": "StreamChunk",
}
OF_003 = """
AgentContent AgentContentType AgentErrorContent AgentErrorEvent AgentEvent AgentMessage AgentMessageStatus AgentRole
AgentSessionDelta AgentSessionRecord AgentSessionStatus AgentStartTextEvent AgentTextContent AgentTextDeltaEvent
AgentTextEndEvent AgentToolResultContent AgentToolResultEvent AgentToolUseContent AgentToolUseEvent AnalysisScope
ClientToolSpec ClientViewingContext ModelProfileResponse
"""


@pytest.mark.parametrize(("name", "own"), EVENTS.items())
def test_events_of_documents_001_and_004_are_aliases(name: str, own: str) -> None:
    assert getattr(documents, name) is getattr(roboco, own)


@pytest.mark.parametrize("name", OF_003.split())
def test_each_name_of_document_003_has_the_fields_of_its_class(name: str) -> None:
    own: Any = getattr(documents, name)
    literal: Any = getattr(document_classes, name, None)
    if hasattr(literal, "model_fields"):
        assert set(literal.model_fields) <= set(own.model_fields)
    elif literal is not None and name != "AgentContent":
        assert {str(member) for member in literal} == {str(member) for member in own}


def test_a_router_selects_the_next_agent_of_a_history() -> None:
    agents = [{"name": "one", "prompt": "hi"}, {"name": "two", "prompt": "hi"}]
    team = parse_team({"name": "desk", "agents": agents})
    history = [TaskStep(agent_name="user", parts=(TextPart(text="go"),))]
    assert documents.Router(team).select_next_agent(history) == "one"
    history.append(TaskStep(agent_name="one", parts=(TextPart(text="said"),)))
    assert documents.Router(team).select_next_agent(iter(history)) == "two"
    own = documents.Router(team, lambda team, history: Route(f"after {len(history.steps)}", "x", "y", "z"))
    assert own.select_next_agent(history) == "after 2"


def delta(text: str, attempt: int = 1) -> StreamItem:
    return stream_item(TextPartDelta(text=text, step_id="s", agent_name="one", attempt=attempt), "")


def test_a_stream_is_the_events_of_document_003() -> None:
    call = ToolCallPart(tool_call=ToolCall(id="tc_1", tool_name="add", args={"a": 1}))
    calls = (TextPart(text="c"), call, ToolCallPart(tool_call=ToolCall(id="tc_2", tool_name="get", args={})))
    results = (ToolResult(tool_call_id="tc_1", result=3), ToolResult(tool_call_id="tc_2", error="broken"))
    lost: Any = [failed("limit", "too long")]
    steps = [
        TaskStep(agent_name="one", parts=calls),
        TaskStep(agent_name=TOOL_EXECUTOR, parts=tuple(ToolResultPart(tool_result=one) for one in results)),
        TaskStep(agent_name="orchestrator", parts=lost),
    ]
    items = [
        delta("a"),
        delta("b"),
        delta("c", 2),
        *(stream_item(StepFinal(step=step), "") for step in steps),
        delta("d", 3),
    ]
    found = [(type(event).__name__, event.model_dump()) for event in documents.agent_events(items)]
    use = {"name": "add", "tool_use_id": "tc_1"}
    assert found == [
        ("AgentStartTextEvent", {}),
        ("AgentTextDeltaEvent", {"text": "a"}),
        ("AgentTextDeltaEvent", {"text": "b"}),
        ("AgentTextEndEvent", {}),
        ("AgentStartTextEvent", {}),
        ("AgentTextDeltaEvent", {"text": "c"}),
        ("AgentTextEndEvent", {}),
        ("AgentToolUseEvent", use | {"input": {"a": 1}}),
        ("AgentToolUseEvent", {"name": "get", "tool_use_id": "tc_2", "input": {}}),
        ("AgentToolResultEvent", use | {"success": True, "output": {"result": 3}, "runtime_ms": 0}),
        (
            "AgentToolResultEvent",
            {"name": "get", "tool_use_id": "tc_2", "success": False, "output": {"error": "broken"}, "runtime_ms": 0},
        ),
        ("AgentErrorEvent", {"error_message": "too long", "error_code": "limit"}),
        ("AgentStartTextEvent", {}),
        ("AgentTextDeltaEvent", {"text": "d"}),  # the stream has broken off within this text
    ]
