"""run_stream: the parts of an answer as events of AG-UI 1.0. Pure.

A text that a restarted turn has made void is taken back by a snapshot of all messages. An approval, and a call with an
unknown outcome, is an interrupt that the next run resumes.
"""

from collections.abc import Iterator
from typing import Any, Final

from ag_ui import core as ag_ui

from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.part import Artifact, ToolCall, ToolResult
from roboco.domain.history.step import TaskStep, changed_state
from roboco.domain.stream.event import AgentHandedOff, SubTaskStarted
from roboco.gateway.answers import answer_stream as parts
from roboco.gateway.answers.answer_stream import SUPERSEDED, AnswerStream
from roboco.gateway.openai.ids import approval_request_id, shown_call_id
from roboco.gateway.openai.tools import arguments_json, function_name

Event = ag_ui.BaseEvent
PROTOCOL_VERSION: Final = "1.0"
_ROLES: Final = {"text": {"role": "assistant"}, "reasoning": {"role": "reasoning"}}
_EVENTS: Final[dict[str, Any]] = {
    "text": (ag_ui.TextMessageStartEvent, ag_ui.TextMessageContentEvent, ag_ui.TextMessageEndEvent),
    "reasoning": (
        ag_ui.ReasoningMessageStartEvent,
        ag_ui.ReasoningMessageContentEvent,
        ag_ui.ReasoningMessageEndEvent,
    ),
}
"""The events of a message, by the kind of its pieces."""
_APPROVAL: Final = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}, "editedArgs": {"type": "object"}},
    "required": ["approved"],
}
_OUTCOME: Final = {
    "type": "object",
    "properties": {"happened": {"type": "boolean"}, "result": {}},
    "required": ["happened"],
}


class RunStream:
    """Translates the parts of an answer into events.

    `messages` are those of the thread before the answer, `values` the state of the task, and `files` is the address of
    its files.
    """

    def __init__(
        self, answer: AnswerStream, run: ag_ui.RunAgentInput, values: dict[str, Any] | None, files: str
    ) -> None:
        self._answer = answer
        self._run = run
        self._values = values or {}
        self._files = files
        self._produced: list[dict[str, Any]] = []
        """The messages of this run, for snapshots."""
        self._committed = 0
        """The number of messages before the running turn."""
        self._agents: dict[str, int] = {}
        self._agent = ("", "")
        """The invocation and the name of the running agent."""
        self._open: parts.Piece | None = None
        """The first piece of the open part."""
        self._pieces: list[str] = []
        self._approvals: list[parts.ApprovalAsked] = []
        self._result: Any = None

    def opening(self, trimmed: bool) -> Iterator[Event]:
        """Yield the first events. `trimmed` says that the client has messages that this answer replaces."""
        run = self._run
        yield ag_ui.RunStartedEvent(
            thread_id=run.thread_id,
            run_id=run.run_id,
            parent_run_id=run.parent_run_id,
            protocol_version=PROTOCOL_VERSION,
        )
        if trimmed:
            yield self._snapshot()
        yield ag_ui.StateSnapshotEvent(snapshot=self._state())

    def events(self, part: parts.AnswerPart) -> Iterator[Event]:
        """Yield the events of a part."""
        match part:
            case parts.Piece():
                yield from self._piece(part)
            case parts.PartsEnded() if self._open is not None:
                yield from self._end(self._open)
            case parts.AgentBegan():
                yield self._begin_agent(part)
            case parts.Voided():
                del self._produced[self._committed :]
                yield self._snapshot()
            case parts.AgentEnded():
                self._committed = len(self._produced)
                yield ag_ui.SubagentFinishedEvent(subagent_run_id=self._agent[0])
            case _:
                yield from self._tool(part)

    def closing(self) -> Iterator[Event]:
        """Yield the last event."""
        answer, settled = self._answer, self._answer.settled
        asked = list(self._interrupts())
        if settled is None:
            yield self._error("the task has ended before the answer", "ended")
        elif settled.status in ("completed", "incomplete") and asked:
            yield self._finished(ag_ui.RunFinishedInterruptOutcome(interrupts=asked))
        elif settled.status == "completed" or settled is SUPERSEDED:
            pending = [self._shown(call.id) for call in answer.open_calls] or None
            outcome = ag_ui.RunFinishedSuccessOutcome(pending_tool_call_ids=pending)
            yield self._finished(outcome if self._is_1_0 else None)
        elif settled.status == "cancelled" and self._is_1_0:
            yield self._finished(ag_ui.RunFinishedCancelledOutcome())
        elif settled.status == "cancelled":
            yield self._error(settled.reason or "the work was interrupted", "cancelled")
        else:
            code = "limit_reached" if settled.at_limit else "task_failed"
            yield self._error(settled.reason or "no reason is recorded", code)

    @property
    def _is_1_0(self) -> bool:
        """True if the client knows outcomes of version 1.0: clients before it refuse them, and name no version."""
        return self._run.protocol_version is not None

    def _tool(self, part: parts.AnswerPart) -> Iterator[Event]:
        match part:
            case parts.CallMade():
                yield from self._call(part.call)
            case parts.CallReturned() if not part.by_client:  # the client has its own
                yield from self._returned(part.result)
            case parts.ApprovalAsked():
                self._approvals.append(part)
            case parts.StateChanged():
                self._values = changed_state(self._values, part.changes)
                yield ag_ui.StateSnapshotEvent(snapshot=self._state())
            case TaskStep():
                self._produced.append({"id": part.step_id, "role": "user", "content": part.text})
                self._committed = len(self._produced)
                yield ag_ui.TextMessageStartEvent(message_id=part.step_id, role="user")
                yield ag_ui.TextMessageContentEvent(message_id=part.step_id, delta=part.text)
                yield ag_ui.TextMessageEndEvent(message_id=part.step_id)
            case _:
                yield from self._custom(part)

    def _custom(self, part: parts.AnswerPart) -> Iterator[Event]:
        match part:
            case parts.OutputGiven():
                self._result = part.value
                yield ag_ui.CustomEvent(name="roboco.output", value={"agent": part.agent, "value": part.value})
            case Artifact():
                value = {"name": part.name, "url": f"{self._files}/{part.name}", "mimeType": part.mime_type}
                yield ag_ui.CustomEvent(name="roboco.file", value=value)
            case AgentHandedOff():
                value = {"from": part.from_agent, "to": part.to_agent, "reason": part.reason}
                yield ag_ui.CustomEvent(name="roboco.handoff", value=value)
            case SubTaskStarted():
                value = {"toolCallId": self._shown(part.tool_call_id), "taskId": part.sub_task_id, "team": part.team}
                yield ag_ui.CustomEvent(name="roboco.subtask", value=value)
            case _:
                pass

    def _begin_agent(self, part: parts.AgentBegan) -> Event:
        number = self._agents[part.step_id] = self._agents.get(part.step_id, 0) + 1
        self._agent = part.step_id if number == 1 else f"{part.step_id}-{number}", part.agent
        return ag_ui.SubagentStartedEvent(subagent_run_id=self._agent[0], name=part.agent)

    def _piece(self, part: parts.Piece) -> Iterator[Event]:
        of = {"message_id": part.id, "subagent_run_id": self._agent[0] or None}
        begin, more, _ = _EVENTS[part.kind]
        if self._open is None:
            self._open = part
            if part.kind == "reasoning":
                yield ag_ui.ReasoningStartEvent(**of)
            yield begin(**_ROLES[part.kind], **self._name(part), **of)
        self._pieces.append(part.text)
        yield more(delta=part.text, **of)

    def _end(self, part: parts.Piece) -> Iterator[Event]:
        of = {"message_id": part.id, "subagent_run_id": self._agent[0] or None}
        text = "".join(self._pieces)
        self._open, self._pieces = None, []
        self._produced.append({"id": part.id, **_ROLES[part.kind], "content": text, **self._name(part)})
        yield _EVENTS[part.kind][2](**of)
        if part.kind == "reasoning":
            yield ag_ui.ReasoningEndEvent(**of)

    def _name(self, part: parts.Piece) -> dict[str, Any]:
        return {"name": self._agent[1]} if part.kind == "text" and self._agent[1] else {}

    def _call(self, call: ToolCall) -> Iterator[Event]:
        of = {"tool_call_id": self._shown(call.id), "subagent_run_id": self._agent[0] or None}
        name, arguments = function_name(call), arguments_json(call)
        function = {"name": name, "arguments": arguments}
        shown = {"id": of["tool_call_id"], "type": "function", "function": function}
        self._produced.append({"id": of["tool_call_id"], "role": "assistant", "toolCalls": [shown]})
        yield ag_ui.ToolCallStartEvent(tool_call_name=name, **of)
        yield ag_ui.ToolCallArgsEvent(delta=arguments, **of)
        yield ag_ui.ToolCallEndEvent(**of)

    def _returned(self, result: ToolResult) -> Iterator[Event]:
        value = f"error: {result.error}" if result.is_error else result.result
        content = value if isinstance(value, str) else canonical_json(value)
        call_id = self._shown(result.tool_call_id)
        message_id = f"{call_id}-result"
        if all(message.id != message_id for message in self._run.messages):  # else an earlier run has sent it
            self._produced.append({"id": message_id, "role": "tool", "toolCallId": call_id, "content": content})
            yield ag_ui.ToolCallResultEvent(message_id=message_id, tool_call_id=call_id, content=content, role="tool")

    def _interrupts(self) -> Iterator[ag_ui.Interrupt]:
        calls = (*self._answer.open_calls, *(one.call for one in self._answer.asked))
        names = {call.id: call.tool_name for call in calls}
        for asked in self._approvals:
            if asked.call_id in names:
                message = f"the call of {names[asked.call_id]} needs an approval"
                yield self._interrupt(asked, "tool_call", message, _APPROVAL)
        for call_id, message in self._answer.unknown.items():
            asked = parts.ApprovalAsked(approval_request_id(call_id, self._answer.head.task_id), call_id)
            yield self._interrupt(asked, "unknown_outcome", message, _OUTCOME)

    def _interrupt(
        self, asked: parts.ApprovalAsked, reason: str, message: str, schema: dict[str, Any]
    ) -> ag_ui.Interrupt:
        tool_call_id = self._shown(asked.call_id)
        return ag_ui.Interrupt(
            id=asked.id, reason=reason, message=message, tool_call_id=tool_call_id, response_schema=schema
        )

    def _snapshot(self) -> Event:
        # As plain objects: the models of the package would check the client's own messages again.
        messages = [*(message.model_dump(by_alias=True) for message in self._run.messages), *self._produced]
        return ag_ui.MessagesSnapshotEvent.model_validate({"type": "MESSAGES_SNAPSHOT", "messages": messages})

    def _state(self) -> dict[str, Any]:
        return {"taskId": self._answer.head.task_id, "values": self._values}

    def _finished(self, outcome: Any) -> Event:
        run = self._run
        return ag_ui.RunFinishedEvent(
            thread_id=run.thread_id, run_id=run.run_id, outcome=outcome, result=self._result, usage=self._usage()
        )

    def _error(self, message: str, code: str) -> Event:
        detail = f"task {self._answer.head.task_id}: {message}"
        return ag_ui.RunErrorEvent(message=detail, code=code, usage=self._usage())

    def _usage(self) -> list[ag_ui.TokenUsage]:
        usage = self._answer.usage
        counts = {"input_tokens": usage.tokens_in, "output_tokens": usage.tokens_out, "total_tokens": usage.tokens}
        return [ag_ui.TokenUsage(**counts)]

    def _shown(self, call_id: str) -> str:
        return shown_call_id(call_id, self._answer.head.task_id)
