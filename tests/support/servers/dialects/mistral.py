"""Mistral: ids of nine characters, a strict order of roles, 422 for each unknown parameter."""

import re

from roboco.lab.servers.chat_protocol import ChatRefusal as Refusal
from roboco.lab.servers.chat_protocol import ChatReply, ChatRequest, Json, words
from roboco.lab.servers.dialect import DONE, event
from tests.support.servers.dialects.compatible import CompatibleDialect, unknown_fields

_PARAMETERS = frozenset(
    (
        *("model", "messages", "stream", "temperature", "top_p", "max_tokens", "stop", "random_seed", "metadata", "n"),
        *("response_format", "tools", "tool_choice", "presence_penalty", "frequency_penalty", "prediction"),
        *("parallel_tool_calls", "prompt_mode", "safe_prompt", "guardrails", "reasoning_effort", "prompt_cache_key"),
    )
)
_ID = re.compile(r"[a-zA-Z0-9]{9}")


def _misplaced(message: str) -> Refusal:
    return Refusal(message, type="invalid_request_message_order", code="3230")


class Mistral(CompatibleDialect):
    """Its usage is always in the last chunk, its thoughts are parts of the content."""

    def check(self, request: ChatRequest) -> None:
        super().check(request)
        last = ""
        for message in request.messages:
            role = message["role"]
            if role == "user" and last == "tool":
                raise _misplaced("Unexpected role 'user' after role 'tool'")
            if role == "assistant" and not message.get("content") and not message.get("tool_calls"):
                problem = "Assistant message must have either content or tool_calls, but not none."
                raise Refusal(problem, type="invalid_request_assistant_message", code="3240")
            for call in message.get("tool_calls") or ():
                if not _ID.fullmatch(call["id"]):
                    problem = f"Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with a length of 9."
                    raise Refusal(problem, type="invalid_function_call", code="3280")
            last = role
        if last == "assistant":
            expected = "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"
            raise _misplaced(expected)

    def check_names(self, body: Json) -> None:
        for path, value in unknown_fields(body, _PARAMETERS):
            loc, given = ["body", *path], value
            if isinstance(value, dict) and value:
                inner, given = next(iter(value.items()))
                loc.append(inner)
            detail = {"type": "extra_forbidden", "loc": loc, "msg": "Extra inputs are not permitted", "input": given}
            raise Refusal("Extra inputs are not permitted", status=422, detail=[detail])

    def error_body(self, error: Refusal) -> object:
        more = {name: value for name, value in error.more.items() if name != "detail"}
        message = {"detail": error.more["detail"]} if "detail" in error.more else error.message
        body = {"object": "error", "message": message, "type": "invalid_request_error", "param": None}
        return body | {"code": error.code, "raw_status_code": error.status} | more

    def call_id(self, request: ChatRequest, n: int) -> str:
        return f"{request.digest[:7]}{n:02}"

    def call_deltas(self, index: int, call: Json) -> list[Json]:
        return [{"id": call["id"], "function": call["function"], "index": index}]

    def thoughts(self, request: ChatRequest, reply: ChatReply) -> list[Json]:
        pieces = [[{"type": "text", "text": word}] for word in words(reply.reasoning)]
        return [{"content": [{"type": "thinking", "thinking": piece}]} for piece in pieces]

    def ending(self, request: ChatRequest, reply: ChatReply) -> bytes:
        choice = {"index": 0, "delta": {"content": ""}, "finish_reason": self.finish_reason(reply)}
        used = self.usage(request, reply)
        return event(self.envelope(request, "chat.completion.chunk", [choice], used)) + DONE
