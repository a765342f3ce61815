"""Messages of both channels survive serialization, those of unknown kinds too."""

import json
from typing import Any

from roboco.domain.history.part import ToolCall, ToolResult
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import (
    AgentHandedOff,
    AgentSelected,
    AnyEvent,
    ErrorOccurred,
    StatusChanged,
    StepEnded,
    StreamChunk,
    StreamReset,
    SubTaskStarted,
    TaskEnded,
    TaskStarted,
    ToolCalled,
    ToolReturned,
    ToolUnknown,
    TurnRestarted,
    UnknownEvent,
    UserInterrupted,
    UserMessageAdded,
    parse_stream_message,
    unnumbered_json,
)
from tests.unit.domain.steps import START, steps_of

AT: dict[str, Any] = {"task_id": "t1", "timestamp": START}
STEP = steps_of(("user", "Grüße \u2028"))[0]
CALL = ToolCall(id="tc_1", tool_name="add", args={"a": [1]})
EVENTS: list[AnyEvent] = [
    TaskStarted(team="desk", **AT),
    AgentSelected(agent_name="one", step_id="s", reason="why", routing={"rule": "next"}, **AT),
    AgentHandedOff(from_agent="one", to_agent="two", reason="why", **AT),
    ToolCalled(step_id="s", agent_name="one", tool_call=CALL, **AT),
    SubTaskStarted(tool_call_id="tc_1", sub_task_id="t.1", team="helpers", **AT),
    ToolReturned(tool_name="add", tool_result=ToolResult(tool_call_id="tc_1", result={"a": None}), **AT),
    ToolUnknown(tool_name="add", tool_call_id="tc_1", reason="why", **AT),
    UserMessageAdded(step_id="s", text="hello", **AT),
    UserInterrupted(reason="why", **AT),
    TurnRestarted(step_id="s", attempt=2, reason="why", **AT),
    StatusChanged(status=TaskStatus.USER_TURN, reason="why", **AT),
    StepEnded(step=STEP, **AT),
    TaskEnded(status=TaskStatus.FAILED, reason="why", usage={"steps": 1}, **AT),
    StreamReset(steps=3, **AT),
    ErrorOccurred(code="refused", message="why", **AT),
]


def serialize(message: AnyEvent | StreamChunk, **numbers: Any) -> dict[str, Any]:
    """Return the message as a follower receives it, with the numbers that Redis adds."""
    record: dict[str, Any] = json.loads(json.dumps(numbers)[:-1] + "," + unnumbered_json(message))
    return record


def test_an_event_of_an_unknown_kind_is_kept() -> None:
    record = {"type": "event_of_tomorrow", "seq": 1, "task_id": "t1", "timestamp": "2026-01-02T03:04:05Z", "more": [1]}
    read = parse_stream_message(record)
    assert isinstance(read, UnknownEvent)
    assert read.type == "event_of_tomorrow"
    assert read.model_dump(mode="json")["more"] == [1]


def test_unknown_fields_of_a_known_kind_are_kept() -> None:
    read = parse_stream_message(serialize(EVENTS[0], seq=1) | {"more": [1]})
    assert read.model_dump(mode="json")["more"] == [1]
