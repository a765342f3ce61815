"""task_events: the parts of an answer as events of A2A, and the steps of a task as artifacts. Pure: no I/O, no clock.

    text of a turn ─► artifact STEP, in pieces      restart ─► the artifact is replaced by an empty one
    typed output, file ─► artifacts of their own    turns, calls, results, hand-overs ─► status `working` with data

An artifact has the same id in each attempt and in each reading: a client that subscribes after a cut replaces what it
has.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from a2a import types as a2a
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value

from roboco.domain.builtin_tools import CLIENT_PREFIX
from roboco.domain.canonical_json import canonical_json
from roboco.domain.history import part as history
from roboco.domain.history.step import OUTPUT, USER, TaskStep
from roboco.domain.stream.event import AgentHandedOff, SubTaskStarted
from roboco.gateway.answers import answer_stream as parts
from roboco.gateway.openai.ids import shown_call_id
from roboco.gateway.openai.outputs import is_answer

MAX_EXACT: Final = 2**53
MAX_VALUE_DEPTH: Final = 24
"""Levels of JSON in an event: protobuf reads messages of 100 levels, and an object of JSON has three."""


class TaskEvents:
    """Translates the parts of an answer into events. `files` is the address of the files of the task."""

    def __init__(self, task_id: str, context_id: str, files: str) -> None:
        self._ids: Any = {"task_id": task_id, "context_id": context_id}
        self._files = files
        self._turn = parts.AgentBegan("", "")
        self._begun: set[str] = set()
        """The turns whose artifact the client has."""

    def events(self, part: parts.AnswerPart) -> Iterator[a2a.StreamResponse]:
        """Yield the events of a part."""
        match part:
            case parts.AgentBegan():
                self._turn = part
                yield self._working(agent=part.agent)
            case parts.Piece(kind="text"):
                yield self._text(part.text)
            case parts.Voided() if self._turn.step_id in self._begun:
                self._begun.discard(self._turn.step_id)
                yield self._text("")
            case parts.AgentEnded() if self._turn.step_id in self._begun:
                yield self._text("", last_chunk=True)
            case parts.OutputGiven():
                yield self._artifact(output_artifact(part.step_id, part.agent, part.value), last_chunk=True)
            case history.Artifact():
                yield self._artifact(file_artifact(part, self._files), last_chunk=True)
            case _:
                yield from self._progress(part)

    def status(self, status: a2a.TaskStatus) -> a2a.StreamResponse:
        """Return the event of a status."""
        return a2a.StreamResponse(status_update=a2a.TaskStatusUpdateEvent(status=status, **self._ids))

    def _text(self, text: str, last_chunk: bool = False) -> a2a.StreamResponse:
        step_id, append = self._turn.step_id, self._turn.step_id in self._begun
        self._begun.add(step_id)
        return self._artifact(text_artifact(step_id, self._turn.agent, text), append=append, last_chunk=last_chunk)

    def _artifact(self, artifact: a2a.Artifact, append: bool = False, last_chunk: bool = False) -> a2a.StreamResponse:
        update = a2a.TaskArtifactUpdateEvent(artifact=artifact, append=append, last_chunk=last_chunk, **self._ids)
        return a2a.StreamResponse(artifact_update=update)

    def _progress(self, part: parts.AnswerPart) -> Iterator[a2a.StreamResponse]:
        match part:
            case parts.CallMade():
                yield self._working(call=call_value(part.call, part.sub_task))
            case parts.CallReturned():
                result = part.result
                outcome = {"error": result.error} if result.is_error else {"result": result.result}
                yield self._working(result={"callId": result.tool_call_id, **outcome})
            case parts.CallDenied():
                yield self._working(denied={"callId": part.call_id})
            case AgentHandedOff():
                yield self._working(handoff={"from": part.from_agent, "to": part.to_agent, "reason": part.reason})
            case SubTaskStarted():
                of = {"callId": part.tool_call_id, "taskId": part.sub_task_id, "team": part.team}
                yield self._working(subtask=of)
            case _:
                pass

    def _working(self, **values: Any) -> a2a.StreamResponse:
        """Return the status `working` with a value, as metadata: it is no message of the agents."""
        update = a2a.TaskStatusUpdateEvent(status=a2a.TaskStatus(state=a2a.TaskState.TASK_STATE_WORKING), **self._ids)
        update.metadata.CopyFrom(_value(values).struct_value)
        return a2a.StreamResponse(status_update=update)


def data_part(value: Any) -> a2a.Part:
    """Return a part with any JSON."""
    return a2a.Part(data=_value(value), media_type="application/json")


def _value(value: Any) -> Value:
    return ParseDict(_sendable(value), Value())


def _sendable(value: Any, depth: int = MAX_VALUE_DEPTH) -> Any:
    """Return the value with texts for what protobuf cannot hold: integers that are no exact float, and deep JSON."""
    match value:
        case dict() | list() if depth == 0:
            return canonical_json(value)
        case dict():
            return {name: _sendable(one, depth - 1) for name, one in value.items()}
        case list():
            return [_sendable(one, depth - 1) for one in value]
        case int() if abs(value) > MAX_EXACT:
            return str(value)
        case _:
            return value


def call_value(call: history.ToolCall, sub_task: str = "") -> dict[str, Any]:
    """Return a call as JSON. The id of a sub-task's call names the sub-task."""
    call_id = shown_call_id(call.id, sub_task) if sub_task else call.id
    return {"callId": call_id, "tool": call.tool_name.removeprefix(CLIENT_PREFIX), "args": call.args}


def message(message_id: str, sent: Iterable[a2a.Part], by_user: bool = False) -> a2a.Message:
    """Return a message."""
    return a2a.Message(message_id=message_id, role=a2a.Role.ROLE_USER if by_user else a2a.Role.ROLE_AGENT, parts=sent)


def text_artifact(step_id: str, agent: str, text: str) -> a2a.Artifact:
    """Return the text of a step."""
    return a2a.Artifact(artifact_id=step_id, name=agent, parts=[a2a.Part(text=text)])


def output_artifact(step_id: str, agent: str, value: Any) -> a2a.Artifact:
    """Return the typed output of a step."""
    return a2a.Artifact(artifact_id=f"{step_id}-output", name=agent, parts=[data_part(value)])


def file_artifact(file: history.Artifact, files: str) -> a2a.Artifact:
    """Return a file, by its address."""
    part = a2a.Part(url=f"{files}/{file.name}", filename=file.name, media_type=file.mime_type)
    return a2a.Artifact(artifact_id=file.name, name=file.name, parts=[part])


def artifacts_of(steps: Sequence[TaskStep], files: str) -> Iterator[a2a.Artifact]:
    """Yield the artifacts of committed steps, in their order."""
    for step in steps:
        if is_answer(step):
            if step.text:
                yield text_artifact(step.step_id, step.agent_name, step.text)
            if OUTPUT in step.metadata:
                yield output_artifact(step.step_id, step.agent_name, step.metadata[OUTPUT])
        if step.agent_name != USER:
            yield from (file_artifact(file, files) for file in step.artifacts)


def messages_of(steps: Sequence[TaskStep]) -> list[a2a.Message]:
    """Return the messages of the user. Those of the agents are artifacts."""
    said = (step for step in steps if step.agent_name == USER and step.text)
    return [message(step.step_id, [a2a.Part(text=step.text)], by_user=True) for step in said]
