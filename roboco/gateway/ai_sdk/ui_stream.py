"""ui_stream: translate the stream of a task into chunks of a UI message, version 1, as the AI SDK reads it. Pure.

    agent chosen ─► start-step, data-agent       text, reasoning ─► *-start, *-delta, *-end
    turn restarts ─► reset-step: its text is void     step ─► tool-input-available, file, finish-step
    results ─► tool-output-available, -error, -denied     approval ─► tool-approval-request
    message while agents work ─► steering-message     the task waits or ends ─► finish, abort or error

Which texts are void, and where an answer begins and ends, `ResponseStream` knows: all protocols agree on it. A client
that was cut off reads the message again from its begin, which replaces all that it has of it.
"""

from collections.abc import Iterator
from typing import Any, Final

from roboco.domain.builtin_tools import CLIENT_PREFIX
from roboco.domain.decision.tool_answers import is_client_call
from roboco.domain.history.part import ArtifactPart, ToolCall, ToolResult
from roboco.domain.history.step import OUTPUT, USER, TaskStep
from roboco.domain.stream.item import ReasoningDelta, StreamItem
from roboco.gateway.ai_sdk.ids import ITEM_PREFIX, message_id
from roboco.gateway.openai.events import ResponseEvent
from roboco.gateway.openai.ids import shown_call_id, split_call_id
from roboco.gateway.openai.outputs import is_answer
from roboco.gateway.openai.response_object import ResponseHead
from roboco.gateway.openai.response_stream import ResponseStart, ResponseStream
from roboco.gateway.openai.segment import Settled

Chunk = dict[str, Any]
_SUPERSEDED: Final = Settled("incomplete", "the next message of the chat continues the work")


class UIMessageStream:
    """Translates the items of a task, from any position before the message.

    `files` is the address of the task's files. `continued` is the id of the message that the answers of the client
    continue; a message of the user begins another one.
    """

    def __init__(self, head: ResponseHead, start: ResponseStart, files: str, continued: str = "") -> None:
        self._head = head
        self._files = files
        self._message = continued
        self._started = False
        self._response = ResponseStream(head, start)
        self._last = start.before
        self._step = ""
        """The step whose turn runs; "" between turns."""
        self._agent = ""
        self._has_content = False
        """True if the running turn has sent text or reasoning."""
        self._text = self._reasoning = ""
        """The id of the open part."""
        self._results: set[str] = set()
        """The calls whose results were sent."""
        self._next: StreamItem | None = None
        """The message of the chat with which the next answer begins."""
        self.settled: Settled | None = None
        """The end of the work on the message, until `resume` is called."""

    def feed(self, item: StreamItem) -> Iterator[Chunk]:
        """Yield the chunks of an item. Each item is fed once, in order."""
        if self._supersedes(item):
            self._next, self.settled = item, _SUPERSEDED
            return
        for event in self._response.feed(item):
            yield from self._event(event, item)
        if self._response.result:
            yield from self._item(item)
        if item.type == "step_final":
            self._last = item.data.step
        self.settled = self._response.settled

    def next_answer(self) -> Iterator[Chunk]:
        """Continue after the end of an answer: the task goes on. Yield the chunks of what has begun already."""
        begun, self._next, self.settled = self._next, None, None
        if begun is not None and begun.type == "step_final":
            yield from self._end_step()
            self._response = ResponseStream(self._head, ResponseStart(begun.data.step.seq))
            yield from self.feed(begun)
        elif self._last is not None:
            self._response = ResponseStream(self._head, ResponseStart(self._last.seq + 1, before=self._last))

    @property
    def steps(self) -> int:
        """The number of steps of the task so far."""
        return 0 if self._last is None else self._last.seq + 1

    def closing(self) -> Iterator[Chunk]:
        """Yield the last chunks of the message."""
        yield from self._end_step()
        settled, usage = self.settled or Settled("failed", "the task has ended before the answer"), self._response.usage
        counts = {"inputTokens": usage.tokens_in, "outputTokens": usage.tokens_out, "totalTokens": usage.tokens}
        metadata = {"taskId": self._head.task_id, "usage": counts}
        match settled.status:
            case "completed":
                asks = self._last is not None and any(call.id not in self._results for call in self._last.calls)
                yield _finish("tool-calls" if asks else "stop", metadata)
            case "incomplete" if settled is _SUPERSEDED:
                yield _finish("other", metadata)
            case "incomplete" if settled.at_limit:
                yield _finish("length", metadata)
            case "cancelled":
                yield {"type": "message-metadata", "messageMetadata": metadata}
                yield {"type": "abort", "reason": settled.reason or "the work was interrupted"}
            case _:
                detail = settled.reason or "no reason is recorded"
                yield {"type": "error", "errorText": f"task {self._head.task_id}: {detail}"}

    def _supersedes(self, item: StreamItem) -> bool:
        """Return True if the item is another message of the chat, sent while the agents worked."""
        if item.type != "step_final" or not self._response.result or item.data.step.agent_name != USER:
            return False
        return str(item.data.step.metadata.get("item_id", "")).startswith(ITEM_PREFIX)

    def _event(self, event: ResponseEvent, item: StreamItem) -> Iterator[Chunk]:
        added = event.fields.get("item", {})
        match event.type, added.get("type"):
            case "response.created", _:
                yield from self._begin(event.fields["response"]["id"], item)
            case "response.output_text.delta", _:
                yield from self._text_delta(event, item)
            case "response.output_item.done", "message" if event.void:
                yield from self._reset()
            case "response.output_item.done", "message":
                yield from self._end_parts()
            case "response.output_item.done", "mcp_approval_request":
                call_id = shown_call_id(*split_call_id(added["id"]))
                yield {"type": "tool-approval-request", "approvalId": added["id"], "toolCallId": call_id}
            case _:
                pass

    def _begin(self, response_id: str, item: StreamItem) -> Iterator[Chunk]:
        is_message = item.type == "step_final" and item.data.step.agent_name == USER
        if is_message or not self._message:
            self._message = message_id(response_id)
            yield {"type": "start", "messageId": self._message, "messageMetadata": {"taskId": self._head.task_id}}
        elif not self._started:
            yield {"type": "start", "messageId": self._message}
        self._started = True

    def _item(self, item: StreamItem) -> Iterator[Chunk]:
        match item.type:
            case "event_agent_select":
                yield from self._reset()
                yield from self._begin_step(item.data.step_id, item.data.agent_name)
            case "event_turn_restart" | "event_stream_reset":
                yield from self._reset()
            case "reasoning_delta":
                yield from self._reasoning_delta(item.data)
            case "step_final":
                yield from self._committed(item.data.step)
            case "tool_result_part":
                yield from self._result(item.data.part.tool_result)
            case "event_agent_handoff":
                data = {"from": item.data.from_agent, "to": item.data.to_agent, "reason": item.data.reason}
                yield {"type": "data-handoff", "data": data}
            case "event_sub_task":
                call_id = shown_call_id(item.data.tool_call_id, self._head.task_id)
                data = {"toolCallId": call_id, "taskId": item.data.sub_task_id, "team": item.data.team}
                yield {"type": "data-subtask", "id": item.data.sub_task_id, "data": data}
            case _:
                pass

    def _begin_step(self, step_id: str, agent: str) -> Iterator[Chunk]:
        if self._step == step_id:
            return
        yield from self._end_step()
        self._step, self._agent = step_id, agent
        yield {"type": "start-step"}
        yield self._about_agent()

    def _about_agent(self) -> Chunk:
        return {"type": "data-agent", "id": self._step, "data": {"agent": self._agent}}

    def _end_step(self) -> Iterator[Chunk]:
        yield from self._end_parts()
        if self._step:
            self._step, self._has_content = "", False
            yield {"type": "finish-step"}

    def _reset(self) -> Iterator[Chunk]:
        """Yield the chunks that take back all that the running turn has sent."""
        if self._has_content:
            self._has_content, self._text, self._reasoning = False, "", ""
            yield {"type": "reset-step"}
            yield self._about_agent()

    def _text_delta(self, event: ResponseEvent, item: StreamItem) -> Iterator[Chunk]:
        if item.type == "text_part_delta":
            yield from self._begin_step(item.data.step_id, item.data.agent_name)
        if self._text != event.fields["item_id"]:
            yield from self._end_parts()
            self._text, self._has_content = event.fields["item_id"], True
            yield {"type": "text-start", "id": self._text}
        yield {"type": "text-delta", "id": self._text, "delta": event.fields["delta"]}

    def _reasoning_delta(self, delta: ReasoningDelta) -> Iterator[Chunk]:
        yield from self._begin_step(delta.step_id, delta.agent_name)
        if not self._reasoning:
            yield from self._end_parts()
            self._reasoning, self._has_content = f"{delta.step_id}-{delta.attempt}", True
            yield {"type": "reasoning-start", "id": self._reasoning}
        yield {"type": "reasoning-delta", "id": self._reasoning, "delta": delta.text}

    def _end_parts(self) -> Iterator[Chunk]:
        if self._reasoning:
            yield {"type": "reasoning-end", "id": self._reasoning}
        if self._text:
            yield {"type": "text-end", "id": self._text}
        self._text = self._reasoning = ""

    def _committed(self, step: TaskStep) -> Iterator[Chunk]:
        if step.agent_name == USER and self._last is not None and step.seq > self._response_begin:
            yield {"type": "steering-message", "id": step.step_id, "parts": [{"type": "text", "text": step.text}]}
        if is_answer(step):
            yield from self._begin_step(step.step_id, step.agent_name)
            yield from self._answered(step)
            yield from self._end_step()
        yield from self._files_of(step)
        for result in step.results:
            yield from self._result(result)
        for call_id in sorted(step.denied_calls):
            yield {"type": "tool-output-denied", "toolCallId": shown_call_id(call_id, self._head.task_id)}

    def _files_of(self, step: TaskStep) -> Iterator[Chunk]:
        for part in step.parts if step.agent_name != USER else ():
            if isinstance(part, ArtifactPart):
                url = f"{self._files}/{part.artifact.name}"
                yield {"type": "file", "url": url, "mediaType": part.artifact.mime_type}

    def _answered(self, step: TaskStep) -> Iterator[Chunk]:
        for call in step.calls:
            yield self._call(call)
        if OUTPUT in step.metadata:
            data = {"agent": step.agent_name, "value": step.metadata[OUTPUT]}
            yield {"type": "data-output", "id": f"output-{step.step_id}", "data": data}

    @property
    def _response_begin(self) -> int:
        return int(self._response.result["id"].rpartition("_")[2])

    def _call(self, call: ToolCall) -> Chunk:
        chunk: Chunk = {
            "type": "tool-input-available",
            "toolCallId": shown_call_id(call.id, self._head.task_id),
            "toolName": call.tool_name.removeprefix(CLIENT_PREFIX),
            "input": call.args,
        }
        return chunk if is_client_call(call) else {**chunk, "providerExecuted": True, "dynamic": True}

    def _result(self, result: ToolResult) -> Iterator[Chunk]:
        if result.tool_call_id in self._results:
            return
        self._results.add(result.tool_call_id)
        call_id = shown_call_id(result.tool_call_id, self._head.task_id)
        if result.is_error:
            yield {"type": "tool-output-error", "toolCallId": call_id, "errorText": result.error or "error"}
        else:
            yield {"type": "tool-output-available", "toolCallId": call_id, "output": result.result}


def _finish(reason: str, metadata: dict[str, Any]) -> Chunk:
    return {"type": "finish", "finishReason": reason, "messageMetadata": metadata}
