"""Records in the form of each document are read by its own classes, and what those classes write is read here."""

import json
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from roboco import StepFinal, TaskStep, TextPartDelta, ToolCallItem, ToolResultItem, UsageError, documents
from roboco.domain.history.part import TextPart, ToolCall, ToolCallPart, ToolResult, ToolResultPart
from roboco.domain.history.step import parse_step
from roboco.domain.inbox.submission import parse_submission
from roboco.domain.reading_form import DocumentForm, check_form, in_form, step_in_form, steps_in_form
from roboco.domain.stream.event import (
    AgentHandedOff,
    ErrorOccurred,
    ReasoningChunk,
    StepEnded,
    StreamChunk,
    TaskStarted,
    ToolCalled,
    ToolReturned,
    UnknownEvent,
    parse_stream_message,
)
from roboco.domain.stream.item import ReasoningDelta, stream_item
from tests.support.document_classes import AgentMessage, Document000, Document001, Document002
from tests.support.document_classes import TextPart as LiteralText
from tests.support.document_classes import ToolCall as LiteralCall
from tests.support.document_classes import ToolCallPart as LiteralCallPart
from tests.unit.domain.steps import START, artifact, call, failed, result, steps_of, text

STEPS = steps_of(
    ("user", [text("go"), artifact("a.txt")], {"by": "me"}),
    ("one", [text("I look."), call("tc_1", "look", {"a": 1}), call("tc_2"), call("tc_3"), call("tc_4")]),
    (
        "tool_executor",
        [
            result("tc_1", {"b": 2}),
            result("tc_2", error="broken"),
            result("tc_3", "out"),
            result("tc_4", ["x"], "half"),
        ],
    ),
    ("one", [text("see"), {"type": "image", "data": [1]}]),
    ("orchestrator", [failed("limit", "too long")]),
)
FILE = {"uri": "file://artifacts/a.txt", "mime_type": "text/plain"}
IMAGE = '{"data":[1],"type":"image"}'
UNKNOWN, LIMIT = text(IMAGE), text("[error limit: too long]\n")


def called(call_id: str, name: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_call", "tool_call": {"id": call_id, "tool_name": name, "args": args}}


CALLS = [called("tc_1", "look", {"a": 1}), *(called(f"tc_{number}", "add", {}) for number in (2, 3, 4))]


def test_form_000_has_the_fields_of_document_000() -> None:
    records = list(steps_in_form(STEPS, "000"))
    read = [Document000.TaskStep.model_validate_json(json.dumps(record)) for record in records]
    assert [step.model_dump(mode="json") for step in read] == records
    assert [step.created_at for step in read] == [step.created_at for step in STEPS]
    assert (read[0].id, read[0].metadata) == (STEPS[0].step_id, {"by": "me"})
    results = [part["tool_result"] for part in records[2]["parts"]]
    assert results == [
        {"tool_call_id": "tc_1", "result": {"b": 2}, "is_error": False},
        {"tool_call_id": "tc_2", "result": "broken", "is_error": True},
        {"tool_call_id": "tc_3", "result": "out", "is_error": False},
        {"tool_call_id": "tc_4", "result": ["x"], "is_error": True},
    ]
    assert records[0]["parts"] == [text("go"), text("[file file://artifacts/a.txt, text/plain, 0 bytes]\n")]
    assert records[1]["parts"] == [text("I look."), *CALLS]
    assert [records[3]["parts"], records[4]["parts"]] == [[text("see"), UNKNOWN], [LIMIT]]


def test_form_001_has_the_fields_of_document_001() -> None:
    records = list(steps_in_form(STEPS, "001"))
    read = [Document001.TaskStep.model_validate_json(json.dumps(record)) for record in records]
    assert [step.model_dump(mode="json") for step in read] == records
    assert [step.timestamp for step in read] == [step.created_at for step in STEPS]
    results = [part["tool_result"] for part in records[2]["parts"]]
    assert results == [
        {"tool_call_id": "tc_1", "result": '{"b":2}', "error": None},
        {"tool_call_id": "tc_2", "result": "", "error": "broken"},
        {"tool_call_id": "tc_3", "result": "out", "error": None},
        {"tool_call_id": "tc_4", "result": '["x"]', "error": "half"},
    ]
    assert records[0]["parts"] == [text("go"), {"type": "artifact", "artifact": FILE}]


def test_form_002_has_flat_files() -> None:
    records = list(steps_in_form(STEPS, "002"))
    read = [Document002.TaskStep.model_validate_json(json.dumps(record)) for record in records]
    assert [step.step_id for step in read] == [step.step_id for step in STEPS]
    assert records[0]["parts"][1] == {"type": "artifact", "artifact_id": "a.txt"} | FILE
    assert read[0].parts[1] == Document002.ArtifactPart(artifact_id="a.txt", **FILE)
    assert [sorted(record) for record in records] == [["agent_name", "parts", "step_id"]] * 5


def test_form_003_has_messages_that_name_the_tools_of_results() -> None:
    records = list(steps_in_form(STEPS, "003"))
    read = [AgentMessage.model_validate_json(json.dumps(record)) for record in records]
    assert [message.role for message in read] == ["user", "assistant", "roboto", "assistant", "roboto"]
    assert [content["tool_name"] for content in records[2]["content"]] == ["look", "add", "add", "add"]
    assert step_in_form(STEPS[2], "003", STEPS[1]) == records[2]
    assert records[3]["content"] == [{"content_type": "text", "text": "see"}]


def test_form_of_no_document_is_refused() -> None:
    assert [check_form(form) for form in get_args(DocumentForm)] == ["000", "001", "002", "003"]
    with pytest.raises(UsageError, match=r"form: must be one of 000, 001, 002, 003 \(found '004'\)"):
        check_form("004")  # type: ignore[arg-type]


NUMBERS: dict[str, Any] = {"task_id": "t1", "timestamp": START}
CALL, RESULT = ToolCall(id="tc_1", tool_name="add", args={}), ToolResult(tool_call_id="tc_1", error="broken")
RETURNED = {"tool_call_id": "tc_1", "result": "", "error": "broken"}
DELTA = TextPartDelta(text="hi", step_id="s", agent_name="one", attempt=1)
NO_PARTS = {"step_id": "s", "agent_name": "one", "task_id": "t1"}


STEP_000, STEP_001 = step_in_form(STEPS[3], "000"), step_in_form(STEPS[3], "001")


@pytest.mark.parametrize(
    ("item", "message", "of_000", "of_001"),
    [
        (DELTA, StreamChunk(**NO_PARTS, attempt=2, text="hi"), "hi", {"type": "content_chunk", "text": "hi"}),
        (
            ReasoningDelta(**NO_PARTS, text="hm", attempt=1),
            ReasoningChunk(**NO_PARTS, attempt=1, text="hm"),
            None,
            None,
        ),
        (
            ToolCallItem(step_id="s", agent_name="one", part=ToolCallPart(tool_call=CALL)),
            ToolCalled(**NUMBERS, step_id="s", agent_name="one", tool_call=CALL),
            called("tc_1", "add", {}),
            called("tc_1", "add", {}) | {"type": "event_tool_call"},
        ),
        (
            ToolResultItem(tool_name="add", part=ToolResultPart(tool_result=RESULT)),
            ToolReturned(**NUMBERS, tool_name="add", tool_result=RESULT),
            {"type": "tool_result", "tool_result": {"tool_call_id": "tc_1", "result": "broken", "is_error": True}},
            {"type": "event_tool_result", "tool_result": RETURNED},
        ),
        (
            StepFinal(step=STEPS[3]),
            StepEnded(**NUMBERS, step=STEPS[3]),
            STEP_000,
            {"type": "event_step_end", "step": STEP_001},
        ),
        (
            *[TaskStarted(**NUMBERS, team="desk")] * 2,
            None,
            {"type": "event_task_start", "task_id": "t1", "timestamp": "2026-01-02T03:04:05Z"},
        ),
        (
            *[AgentHandedOff(**NUMBERS, from_agent="one", to_agent="two", reason="why")] * 2,
            None,
            {"type": "event_agent_handoff", "from_agent": "one", "to_agent": "two", "reason": "why"},
        ),
    ],
)
def test_live_items_have_the_form_of_each_document(item: Any, message: Any, of_000: Any, of_001: Any) -> None:
    for one in (item, stream_item(item, "c"), message):
        assert (in_form(one, "000"), in_form(one, "001")) == (of_000, of_001)
    kinds: dict[str, type[BaseModel]] = {
        "content_chunk": Document001.StreamChunk,
        "event_tool_call": Document001.ToolCallEvent,
        "event_tool_result": Document001.ToolResultEvent,
        "event_task_start": Document001.TaskStartEvent,
        "event_agent_handoff": Document001.AgentHandoffEvent,
    }
    if of_001 is not None and (kind := kinds.get(of_001["type"])):
        written = kind.model_validate_json(json.dumps(of_001)).model_dump(mode="json")
        assert written == of_001
        assert in_form(parse_stream_message(written), "001") == of_001


def test_other_events_keep_their_fields_in_form_001() -> None:
    event = ErrorOccurred(**NUMBERS, code="refused", message="no")
    assert in_form(event, "001") == event.model_dump(mode="json")
    newer = UnknownEvent.model_validate({"type": "event_newer", "data": 7})
    assert in_form(newer, "001") == newer.model_dump(mode="json")
    assert (in_form(event, "000"), in_form(newer, "000")) == (None, None)


ARTIFACT = Document001.ArtifactPart(artifact=Document001.Artifact(**FILE))
WRITTEN_RESULT = Document001.ToolResultPart(
    tool_result=Document001.ToolResult(tool_call_id="tc_1", result="", error="broken")
)
WRITTEN: dict[str, Any] = {
    "000": Document000.TaskStep(
        id="step_1", agent_name="one", parts=[LiteralText(text="hi")], created_at=START.replace(tzinfo=None)
    ),
    "001": Document001.TaskStep(
        step_id="step_1",
        timestamp=START.replace(tzinfo=None),
        agent_name="one",
        parts=[LiteralText(text="hi"), ARTIFACT, WRITTEN_RESULT],
    ),
    "002": Document002.TaskStep(
        step_id="step_1",
        agent_name="one",
        parts=[
            LiteralText(text="hi"),
            Document002.ArtifactPart(artifact_id="a.txt", **FILE),
            LiteralCallPart(tool_call=LiteralCall(tool_name="add", args={"a": None})),
        ],
    ),
}


@pytest.mark.parametrize("form", ["000", "001", "002"])
def test_steps_that_the_documents_write_are_read(form: Any) -> None:
    written = WRITTEN[form]
    for record in (written.model_dump_json(), written.model_dump(mode="json")):
        step = documents.read(record)
        assert isinstance(step, TaskStep)
        assert (step.id, step.agent_name, step.text) == ("step_1", "one", "hi")
        assert step.metadata == {}
        if form == "002":
            assert (datetime.now(UTC) - step.created_at).total_seconds() < 60
            assert step.calls[0].args == {"a": None}
        else:
            assert step.created_at == START
        assert parse_step(step.sealed("").line()) == step.sealed("")
        kind: type[BaseModel] = type(written)
        assert kind.model_validate(step_in_form(step, form)).model_dump(
            exclude={"created_at", "timestamp", "metadata"}
        )["parts"] == [part.model_dump() for part in written.parts]


def test_chunks_and_events_that_document_001_writes_are_read() -> None:
    chunk = documents.read(Document001.StreamChunk(text="hi").model_dump_json())
    assert isinstance(chunk, StreamChunk)
    assert chunk.text == "hi"
    event = documents.read(Document001.ToolCallEvent(tool_call=LiteralCall(tool_name="add", args={})).model_dump_json())
    assert isinstance(event, ToolCalled)
    assert event.tool_call.tool_name == "add"
    handoff = Document001.AgentHandoffEvent(from_agent="one", to_agent="two", reason="why")
    assert in_form(documents.read(handoff.model_dump()), "001") == handoff.model_dump()  # type: ignore[arg-type]


@pytest.mark.parametrize("record", ["[]", "7", '{"parts": []}', '{"text": "x"}', "{", "[" * 5000])
def test_a_record_of_another_kind_is_refused(record: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each has its own message
        documents.read(record)


def test_a_producer_may_send_steps_of_any_document_as_earlier_messages() -> None:
    history = [WRITTEN["000"], WRITTEN["001"], WRITTEN["002"].model_dump(mode="json")]
    submission = parse_submission({"task_id": "t1", "team": "desk", "prompt": "go", "history": history})
    assert [(one.role, one.agent, one.text) for one in submission.history] == [
        ("assistant", "one", "hi"),
        ("assistant", "one", "(error: broken)\nhi\n(file: file://artifacts/a.txt, text/plain)"),
        ("assistant", "one", 'hi\n(file: file://artifacts/a.txt, text/plain)\n(calls add with {"a":null})'),
    ]
    user = TaskStep(agent_name="user", parts=(TextPart(text="hello"),))
    [message] = parse_submission({"task_id": "t1", "team": "desk", "prompt": "go", "history": [user]}).history
    assert (message.role, message.agent, message.text) == ("user", None, "hello")
    with pytest.raises(UsageError, match=r"history\.0: Value error, is not a step"):
        parse_submission({"task_id": "t1", "team": "d", "prompt": "go", "history": [{"parts": 7, "agent_name": "a"}]})
