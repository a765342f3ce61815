"""chat_stream: translate the events of a response into the chunks of one chat completion. Pure: no I/O, no clock.

    text delta ─► delta.content      the texts of all agents, a blank line apart
    calls of the client's functions ─► delta.tool_calls
    last event ─► finish_reason, or an error

A chat completion cannot take back text. If a turn restarts, the new text is held back until it exceeds the text that
was sent. If it differs, the stream ends with an error, and the caller asks again: with the same `Idempotency-Key` it
gets the answer of the same task, complete.
"""

from collections.abc import Iterator
from typing import Any, Final

from roboco.domain.stream.item import StreamItem
from roboco.domain.usage import Usage
from roboco.gateway.openai.events import ResponseEvent
from roboco.gateway.openai.response_object import ResponseHead
from roboco.gateway.openai.response_stream import ResponseStart, ResponseStream
from roboco.gateway.openai.segment import Settled
from roboco.gateway.problem import Problem

SEPARATOR: Final = "\n\n"
"""Between the texts of two turns."""


class ChatStream:
    """Translates the items of a task into the pieces of an answer."""

    def __init__(self, head: ResponseHead, start: ResponseStart) -> None:
        self._response = ResponseStream(head, start)
        self._where = f"task {head.task_id!r}"
        self._content: list[str] = []
        self._sent: list[str] = []
        """The pieces of the running turn that were sent."""
        self._repeated = ""
        """The text that an earlier attempt has sent."""
        self._matched = 0
        """The characters of it that this attempt has repeated."""
        self.tool_calls: list[dict[str, Any]] = []
        self.finish_reason = ""
        """The reason of the end, once the answer has ended without a problem."""
        self.problem: Problem | None = None
        """The cause of an end without a whole answer."""

    @property
    def finished(self) -> bool:
        """True once the answer has ended."""
        return self.finish_reason != "" or self.problem is not None

    @property
    def content(self) -> str:
        """The text that was sent."""
        return "".join(self._content)

    @property
    def usage(self) -> Usage:
        """The usage of the answer's steps."""
        return self._response.usage

    def feed(self, item: StreamItem) -> Iterator[dict[str, Any]]:
        """Yield the `delta` of each chunk of an item. Each item is fed once, in order."""
        for event in self._response.feed(item):
            if not self.finished:
                yield from self._translate(event)
        if self._response.settled is not None and not self.finished:
            self._settle(self._response.settled)

    def _translate(self, event: ResponseEvent) -> Iterator[dict[str, Any]]:
        match event.type, event.fields.get("item", {}).get("type"):
            case "response.output_item.added", "message":
                self._repeated, self._matched = "".join(self._sent), 0
            case "response.output_text.delta", _:
                yield from self._send(event.fields["delta"])
            case "response.output_item.done", "message" if not event.void:
                if self._matched < len(self._repeated):
                    self._differ()
                self._sent = []
            case "response.output_item.done", "function_call":
                yield self._call(event.fields["item"])
            case _:
                pass

    def _send(self, text: str) -> Iterator[dict[str, Any]]:
        """Yield the delta of a text, or end the answer if the text differs from the one that was sent."""
        again = self._repeated[self._matched : self._matched + len(text)]
        if not text.startswith(again):
            self._differ()
            return
        self._matched += len(again)
        if rest := text[len(again) :]:
            piece = SEPARATOR + rest if self._content and not self._sent else rest
            self._sent.append(rest)
            self._content.append(piece)
            yield {"content": piece}

    def _call(self, item: dict[str, Any]) -> dict[str, Any]:
        function = {"name": item["name"], "arguments": item["arguments"]}
        shown = {"id": item["call_id"], "type": "function", "function": function}
        self.tool_calls.append(shown)
        return {"tool_calls": [{"index": len(self.tool_calls) - 1, **shown}]}

    def _differ(self) -> None:
        detail = "a turn was cut or repeated, and the text that was sent is not that of the answer"
        remedy = "send the request again; with the same Idempotency-Key the answer is that of this task"
        self.problem = Problem(500, "turn_restarted", detail, remedy)

    def _settle(self, settled: Settled) -> None:
        asks = any(item["type"] == "mcp_approval_request" for item in self._response.result["output"])
        match settled.status:
            case "completed" | "incomplete" if self._sent:
                self._differ()
            case "completed" if not asks:
                self.finish_reason = "tool_calls" if self.tool_calls else "stop"
            case "incomplete" if settled.at_limit:
                self.finish_reason = "length"
            case "completed" | "incomplete":
                detail = f"{self._where} waits for a person, for which chat completions have no form"
                self.problem = Problem(409, "approval_required", detail, "decide it with /responses or the REST API")
            case "cancelled":
                detail = f"{self._where} was stopped: {settled.reason or 'interrupted'}"
                self.problem = Problem(409, "cancelled", detail)
            case _:
                self.problem = Problem(500, "task_failed", f"{self._where} has failed: {settled.reason}")
