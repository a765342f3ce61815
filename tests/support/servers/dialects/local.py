"""Servers of open models: Ollama, vLLM, LM Studio, and one of those that refuse `stream_options`."""

from roboco.lab.servers.chat_protocol import ChatRefusal as Refusal
from roboco.lab.servers.chat_protocol import ChatReply, ChatRequest, Json, content_text, encoded
from roboco.lab.servers.dialect import DONE
from tests.support.servers.dialects.compatible import CompatibleDialect
from tests.support.servers.dialects.openai_models import CHARS_PER_TOKEN


class LocalDialect(CompatibleDialect):
    """Needs no key."""

    def check_key(self, request: ChatRequest) -> None:
        """Refuse no request."""


class Ollama(LocalDialect):
    """Sends each call in one delta, all with the index 0, and drops what is longer than its context in silence.

    has_tools: False refuses tools, as for models whose template knows none.
    """

    reasoning_field = "reasoning"

    def __init__(self, context_window: int | None = None, has_tools: bool = True) -> None:
        super().__init__(context_window)
        self._has_tools = has_tools

    def check_model(self, body: Json) -> None:
        if body.get("tools") and not self._has_tools:
            raise Refusal(f"registry.ollama.ai/library/{body['model']} does not support tools")

    def error_body(self, error: Refusal) -> object:
        kind = "not_found_error" if error.status == 404 else "api_error"
        return {"error": {"message": error.message, "type": kind, "param": None, "code": None}}

    def call_deltas(self, index: int, call: Json) -> list[Json]:
        return [{**call, "index": 0}]


class VLLM(LocalDialect):
    """Numbers as codes of errors.

    auto_tools: False refuses tools, as a server without --enable-auto-tool-choice does.
    """

    def __init__(self, context_window: int | None = None, auto_tools: bool = True) -> None:
        super().__init__(context_window)
        self._auto_tools = auto_tools

    def check_model(self, body: Json) -> None:
        super().check_model(body)
        if body.get("tools") and body.get("tool_choice", "auto") == "auto" and not self._auto_tools:
            raise Refusal('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')
        _check_window(body, self.context_window)

    def error_body(self, error: Refusal) -> object:
        kind = {400: "BadRequestError", 404: "NotFoundError"}.get(error.status, "InternalServerError")
        return {"error": {"message": error.message, "type": kind, "param": error.param, "code": error.status}}


def _check_window(body: Json, window: int | None) -> None:
    """Raise Refusal if the limit of the answer leaves too little room for the messages."""
    name = "max_tokens" if body.get("max_tokens") else "max_completion_tokens"
    wanted, used = body.get(name) or 0, _tokens(body)
    if window is not None and used + wanted > window:
        message = (
            f"'max_tokens' or 'max_completion_tokens' is too large: {wanted}. This model's maximum context length is "
            f"{window} tokens and your request has {used} input tokens ({wanted} > {window} - {used})."
        )
        raise Refusal(message, param=name)


def _tokens(body: Json) -> int:
    return sum(len(content_text(message)) for message in body["messages"]) // CHARS_PER_TOKEN


class LMStudio(LocalDialect):
    """Errors as texts, JSON only by a schema, and a context that is too small. context_window: by default 4096."""

    def check_model(self, body: Json) -> None:
        if (body.get("response_format") or {}).get("type") == "json_object":
            raise Refusal("'response_format.type' must be 'json_schema' or 'text'")
        if isinstance(body.get("tool_choice"), dict):
            raise Refusal("Invalid tool_choice type: 'object'. Supported string values: none, auto, required")
        window, used = self.context_window or 4096, _tokens(body)
        if used > window:
            raise Refusal(
                f"Trying to keep the first {used} tokens when context the overflows. However, the model is loaded with "
                f"context length of only {window} tokens, which is not enough. Try to load the model with a larger "
                "context length, or provide a shorter input"
            )

    def error_body(self, error: Refusal) -> object:
        return {"error": error.message}

    def failure(self, request: ChatRequest, error: Refusal) -> bytes:
        return b"event: error\ndata: %s\n\n" % encoded({"error": {"message": error.message}})


class NoStreamOptions(LocalDialect):
    """Refuses `stream_options` as FastAPI does, and reports no usage."""

    def check_names(self, body: Json) -> None:
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
