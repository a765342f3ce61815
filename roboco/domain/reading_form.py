"""Reading forms: records under the names of a document, for readers that have copied its classes. Pure.

A form has the fields and the kinds of parts of its document alone. Content of another kind becomes a text.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, assert_never, get_args

from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.part import (
    Artifact,
    ArtifactPart,
    ErrorPart,
    Part,
    TextPart,
    ToolCallPart,
    ToolResult,
    ToolResultPart,
    UnknownPart,
)
from roboco.domain.history.step import TaskStep
from roboco.domain.session.agent_session import agent_message
from roboco.domain.session.session import messages_of
from roboco.domain.stream.event import (
    AnyEvent,
    ReasoningChunk,
    StepEnded,
    StreamChunk,
    ToolCalled,
    ToolReturned,
)
from roboco.domain.stream.item import (
    ItemData,
    ReasoningDelta,
    StepFinal,
    StreamItem,
    TextPartDelta,
    ToolCallItem,
    ToolResultItem,
    TypedItem,
)
from roboco.errors import UsageError

StreamForm = Literal["000", "001", "002"]
"""The form of live items: that of a document that has some. Document 002 has those of 001."""
DocumentForm = Literal[StreamForm, "003"]
"""The form of a history, by the number of its document."""
_EVENT_FIELDS: Final = {
    "event_task_start": {"type", "task_id", "timestamp"},
    "event_agent_handoff": {"type", "from_agent", "to_agent", "reason"},
}
"""The fields of the events that document 001 defines. Its list is one of examples, so other events have their own."""


def check_form(form: DocumentForm) -> DocumentForm:
    """Return the form. Raise UsageError if no document has this number."""
    if form not in get_args(DocumentForm):
        raise UsageError(f"form: must be one of {', '.join(get_args(DocumentForm))} (found {str(form)[:60]!r})")
    return form


def steps_in_form(steps: Iterable[TaskStep], form: DocumentForm) -> Iterator[dict[str, Any]]:
    """Yield the steps of a history in the form, as plain data."""
    before = None
    for step in steps:
        yield step_in_form(step, form, before)
        before = step


def step_in_form(step: TaskStep, form: DocumentForm, before: TaskStep | None = None) -> dict[str, Any]:
    """Return a step in the form, as plain data. `before` is the step before it, whose tools a message names."""
    if form != "003":
        return _step(step, form)
    [message] = messages_of([step], before)
    return agent_message(message).model_dump(mode="json")


def in_form(item: StreamItem | ItemData | AnyEvent | StreamChunk, form: StreamForm) -> Any:
    """Return a live item, or a message of a channel, in the form, as plain data. Return None if the form has none."""
    data = item.data if isinstance(item, TypedItem) else item
    match data:
        case ReasoningDelta() | ReasoningChunk():
            return None
        case TextPartDelta(text=text) | StreamChunk(text=text):
            return text if form == "000" else {"type": "content_chunk", "text": text}
        case ToolCallItem(part=ToolCallPart(tool_call=call)) | ToolCalled(tool_call=call):
            return _of_part(_part(ToolCallPart(tool_call=call), form), form)
        case ToolResultItem(part=ToolResultPart(tool_result=result)) | ToolReturned(tool_result=result):
            return _of_part(_part(ToolResultPart(tool_result=result), form), form)
        case StepFinal(step=step) | StepEnded(step=step):
            shown = _step(step, form)
            return shown if form == "000" else {"type": "event_step_end", "step": shown}
        case _:
            return None if form == "000" else data.model_dump(mode="json", include=_EVENT_FIELDS.get(data.type))


def _of_part(part: dict[str, Any], form: StreamForm) -> dict[str, Any]:
    return part if form == "000" else part | {"type": f"event_{part['type']}"}


def _step(step: TaskStep, form: DocumentForm) -> dict[str, Any]:
    record = step.model_dump(mode="json", include={"step_id", "parent_id", "agent_name", "created_at", "metadata"})
    step_id, at = record.pop("step_id"), record.pop("created_at")
    record["parts"] = [_part(part, form) for part in step.parts]
    if form == "000":
        return {"id": step_id, "created_at": at} | record
    own = {name: record[name] for name in ("agent_name", "parts")}
    return {"step_id": step_id} | ({"timestamp": at} if form == "001" else {}) | own


def _part(part: Part, form: DocumentForm) -> dict[str, Any]:
    match part:
        case TextPart(text=text):
            return _text(text)
        case ToolCallPart(tool_call=call):
            named = call.model_dump(mode="json", include={"id", "tool_name", "args"})
            return {"type": "tool_call", "tool_call": named}
        case ToolResultPart(tool_result=result):
            return {"type": "tool_result", "tool_result": {"tool_call_id": result.tool_call_id} | _result(result, form)}
        case ArtifactPart(artifact=file):
            return _file(file, form)
        case ErrorPart():
            return _text(f"[error {part.code}: {part.message}]\n")
        case UnknownPart():
            return _text(canonical_json(part.model_dump(mode="json")))
        case unknown:
            assert_never(unknown)


def _file(file: Artifact, form: DocumentForm) -> dict[str, Any]:
    if form == "000":
        return _text(f"[file {file.uri}, {file.mime_type}, {file.size} bytes]\n")
    named = {"uri": file.uri, "mime_type": file.mime_type}
    own = {"artifact": named} if form == "001" else {"artifact_id": file.artifact_id} | named
    return {"type": "artifact"} | own


def _result(result: ToolResult, form: DocumentForm) -> dict[str, Any]:
    value = result.result
    if form == "000":
        return {"result": result.error if value is None and result.is_error else value, "is_error": result.is_error}
    text = value if isinstance(value, str) else "" if value is None and result.is_error else canonical_json(value)
    return {"result": text, "error": (result.error or text or "error") if result.is_error else None}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
