"""Servers of open models: Ollama, LM Studio, and one of those that refuse `stream_options`."""

from roboco.lab.servers.chat_protocol import ChatRefusal as Refusal
from roboco.lab.servers.chat_protocol import ChatReply, ChatRequest, Json
from roboco.lab.servers.dialect import DONE
from tests.support.servers.dialects.compatible import CompatibleDialect
from tests.support.servers.dialects.openai import tokens_of


class LocalDialect(CompatibleDialect):
    """Needs no key."""

    def check_key(self, request: ChatRequest) -> None:
        """Refuse no request."""


class Ollama(LocalDialect):
    """Sends each call in one delta, all with the index 0."""

    reasoning_field = "reasoning"

    def call_deltas(self, index: int, call: Json) -> list[Json]:
        return [{**call, "index": 0}]


class LMStudio(LocalDialect):
    """JSON only by a schema, and a context that is too small."""

    window = 4096

    def check_model(self, body: Json) -> None:
        if (body.get("response_format") or {}).get("type") == "json_object":
            raise Refusal("'response_format.type' must be 'json_schema' or 'text'")
        if isinstance(body.get("tool_choice"), dict):
            raise Refusal("Invalid tool_choice type: 'object'. Supported string values: none, auto, required")
        if (used := tokens_of(body)) > self.window:
            raise Refusal(
                f"Trying to keep the first {used} tokens when context the overflows. However, the model is loaded with "
                f"context length of only {self.window} tokens, which is not enough."
            )


class NoStreamOptions(LocalDialect):
    """Refuses `stream_options` as FastAPI does, and reports no usage."""

    def check_unknown(self, unknown: list[tuple[str | int, ...]], body: Json) -> None:
        if "stream_options" in body:
            detail = {
                "type": "extra_forbidden",
                "loc": ["body", "stream_options"],
                "msg": "Extra inputs are not permitted",
                "input": body["stream_options"],
            }
            raise Refusal(detail["msg"], status=422, detail=[detail])

    def error_body(self, error: Refusal) -> object:
        return {"detail": error.more.get("detail", error.message)}

    def ending(self, request: ChatRequest, reply: ChatReply) -> bytes:
        return self.chunk(request, {}, self.finish_reason(reply)) + DONE
