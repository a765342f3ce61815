"""ui_stream: the parts of an answer as chunks of a UI message, version 1, as the AI SDK reads it. Pure.

A turn of an agent is a step of the message. If it restarts, `reset-step` takes back its text. A client that was cut off
reads the message again from its begin, which replaces all that it has of it.
"""

from collections.abc import Iterator
from typing import Any

from roboco.domain.history.part import Artifact, ToolCall
from roboco.domain.history.step import TaskStep
from roboco.domain.stream.event import AgentHandedOff, SubTaskStarted
from roboco.gateway.answers import answer_stream as parts
from roboco.gateway.answers.answer_stream import SUPERSEDED, AnswerStream
from roboco.gateway.answers.ids import message_id
from roboco.gateway.openai.ids import shown_call_id
from roboco.gateway.openai.tools import function_name

UIChunk = dict[str, Any]


class UIMessageStream:
    """Translates the parts of an answer into chunks.

    `files` is the address of the task's files. `continued` is the id of the message that the answers of the client
    continue; a message of the user begins another one.
    """

    def __init__(self, answer: AnswerStream, files: str, continued: str = "") -> None:
        self.answer = answer
        self._files = files
        self._message = continued
        self._started = False
        self._stepless = bool(continued)
        """True while a continued answer has no step: for a page the last one is that before, which it has answered."""
        self._asks = False
        """True if the answer asks for calls of an earlier step, in one for them alone."""
        self._about: UIChunk = {}
        """The chunk that names the agent of the running step."""
        self._open: parts.Piece | None = None
        """The first piece of the open part."""

    def chunks(self, part: parts.AnswerPart) -> Iterator[UIChunk]:
        """Yield the chunks of a part."""
        match part:
            case parts.Piece():
                if self._open is None:
                    self._open = part
                    yield {"type": f"{part.kind}-start", "id": part.id}
                yield {"type": f"{part.kind}-delta", "id": part.id, "delta": part.text}
            case parts.PartsEnded() if self._open is not None:
                yield {"type": f"{self._open.kind}-end", "id": self._open.id}
                self._open = None
            case parts.Begun():
                yield from self._begin(part)
            case parts.AgentBegan():
                self._stepless = False
                self._about = {"type": "data-agent", "id": part.step_id, "data": {"agent": part.agent}}
                yield {"type": "start-step"}
                yield self._about
            case parts.Voided():
                yield from ({"type": "reset-step"}, self._about)
            case parts.AgentEnded():
                yield {"type": "finish-step"}
            case _:
                yield from self._tool(part)

    def closing(self) -> Iterator[UIChunk]:
        """Yield the last chunks of the message."""
        answer = self.answer
        settled, usage, task_id = answer.settled, answer.usage, answer.head.task_id
        counts = {"inputTokens": usage.tokens_in, "outputTokens": usage.tokens_out, "totalTokens": usage.tokens}
        metadata = {"taskId": task_id, "usage": counts}
        if self._stepless:
            yield from () if self._asks else ({"type": "start-step"},)
            yield {"type": "finish-step"}
        if settled is None:
            yield {"type": "error", "errorText": f"task {task_id} has ended before the answer"}
        elif settled.status == "completed":
            yield _finish("tool-calls" if answer.open_calls else "stop", metadata)
        elif settled is SUPERSEDED or settled.at_limit:
            yield _finish("other" if settled is SUPERSEDED else "length", metadata)
        elif settled.status == "cancelled":
            yield {"type": "message-metadata", "messageMetadata": metadata}
            yield {"type": "abort", "reason": settled.reason or "the work was interrupted"}
        else:
            remedy = f"; decide it with: roboco resolve {task_id}" if answer.unknown else ""
            detail = next(iter(answer.unknown.values()), settled.reason or "no reason is recorded")
            yield {"type": "error", "errorText": f"task {task_id}: {detail}{remedy}"}

    def _begin(self, part: parts.Begun) -> Iterator[UIChunk]:
        if part.by_user or not self._message:
            self._message = message_id(part.response_id)
        if part.by_user or not self._started:
            about = {"taskId": self.answer.head.task_id}
            yield {"type": "start", "messageId": self._message, "messageMetadata": about}
        self._started = True

    def _tool(self, part: parts.AnswerPart) -> Iterator[UIChunk]:
        match part:
            case parts.CallMade():
                yield self._call(part.call, part.by_client)
            case parts.CallReturned():
                about = {"toolCallId": self._shown(part.result.tool_call_id)}
                if part.result.is_error:
                    yield {"type": "tool-output-error", **about, "errorText": part.result.error or "error"}
                else:
                    yield {"type": "tool-output-available", **about, "output": part.result.result}
            case parts.CallDenied():
                yield {"type": "tool-output-denied", "toolCallId": self._shown(part.call_id)}
            case parts.ApprovalAsked():
                yield from self._ask(part)
            case _:
                yield from self._event(part)

    def _ask(self, part: parts.ApprovalAsked) -> Iterator[UIChunk]:
        if self._stepless:
            yield from () if self._asks else ({"type": "start-step"},)
            self._asks = True
            yield from map(self._call, (call for call in self.answer.open_calls if call.id == part.call_id))
        yield {"type": "tool-approval-request", "approvalId": part.id, "toolCallId": self._shown(part.call_id)}

    def _call(self, call: ToolCall, by_client: bool = False) -> UIChunk:
        about = {"toolCallId": self._shown(call.id), "toolName": function_name(call), "input": call.args}
        by = {} if by_client else {"providerExecuted": True, "dynamic": True}
        return {"type": "tool-input-available", **about, **by}

    def _event(self, part: parts.AnswerPart) -> Iterator[UIChunk]:
        match part:
            case Artifact():
                yield {"type": "file", "url": f"{self._files}/{part.name}", "mediaType": part.mime_type}
            case parts.OutputGiven():
                data = {"agent": part.agent, "value": part.value}
                yield {"type": "data-output", "id": f"output-{part.step_id}", "data": data}
            case parts.StateChanged():
                yield {"type": "data-state", "data": part.changes}
            case TaskStep():
                said = [{"type": "text", "text": part.text}]
                yield {"type": "steering-message", "id": part.step_id, "parts": said}
            case AgentHandedOff():
                data = {"from": part.from_agent, "to": part.to_agent, "reason": part.reason}
                yield {"type": "data-handoff", "data": data}
            case SubTaskStarted():
                call_id = self._shown(part.tool_call_id)
                data = {"toolCallId": call_id, "taskId": part.sub_task_id, "team": part.team}
                yield {"type": "data-subtask", "id": part.sub_task_id, "data": data}
            case _:
                pass

    def _shown(self, call_id: str) -> str:
        return shown_call_id(call_id, self.answer.head.task_id)


def _finish(reason: str, metadata: dict[str, Any]) -> UIChunk:
    return {"type": "finish", "finishReason": reason, "messageMetadata": metadata}
