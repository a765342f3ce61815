"""Groq: usage in `x_groq`, and unknown fields are refused."""

from roboco.lab.servers.chat_protocol import ChatRefusal as Refusal
from roboco.lab.servers.chat_protocol import ChatReply, ChatRequest, Json
from roboco.lab.servers.dialect import DONE, event
from tests.support.servers.dialects.compatible import CompatibleDialect


class Groq(CompatibleDialect):
    """Its usage is beside the chunk's own field."""

    reasoning_field = "reasoning"

    def check_unknown(self, unknown: list[tuple[str | int, ...]], body: Json) -> None:
        for path in unknown:
            problem = f"property '{path[-1]}' is unsupported"
            if len(path) > 1:
                place, role = f"'messages.{path[1]}'", body["messages"][path[1]]["role"]
                problem = f"{place} : for 'role:{role}' the following must be satisfied[({place} : {problem})]"
            raise Refusal(problem)

    def ending(self, request: ChatRequest, reply: ChatReply) -> bytes:
        choice = {"index": 0, "delta": {}, "finish_reason": self.finish_reason(reply)}
        chunk = self.envelope(request, "chat.completion.chunk", [choice], None)
        del chunk["usage"]
        return event(chunk | {"x_groq": {"id": "req_1", "usage": self.usage(request, reply)}}) + DONE
