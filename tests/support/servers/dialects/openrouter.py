"""OpenRouter: comments before the answer, details of the thoughts that must return, errors within a chunk."""

from dataclasses import replace

from roboco.lab.servers.chat_protocol import ChatRefusal as Refusal
from roboco.lab.servers.chat_protocol import ChatReply, ChatRequest, Json
from roboco.lab.servers.dialect import DONE, event
from tests.support.servers.dialects.compatible import CompatibleDialect, call_messages, signature

THOUGHTS = "I think about it first. "
_COMMENT = b": OPENROUTER PROCESSING\n\n"
_MISSING = (
    "Gemini models require OpenRouter reasoning details to be preserved in each request. Please refer to our docs: "
    "https://openrouter.ai/docs/guides/best-practices/reasoning-tokens#preserving-reasoning-blocks."
)


class OpenRouter(CompatibleDialect):
    """Each answer has a signed text of thoughts; a message with calls must bring it back unchanged."""

    reasoning_field = "reasoning"

    def check(self, request: ChatRequest) -> None:
        super().check(request)
        for _, message in call_messages(request):
            details = message.get("reasoning_details") or []
            texts = [one.get("text", "") for one in details if one.get("type") == "reasoning.text"]
            signed = [one.get("signature") for one in details if one.get("signature")]
            if signed != [signature("openrouter", "".join(texts))]:
                metadata = {"raw": _MISSING, "provider_name": "Google AI Studio"}
                raise Refusal("Provider returned error", code=400, metadata=metadata)

    def error_body(self, error: Refusal) -> object:
        code = error.status if error.code is None else error.code
        return {"error": {"message": error.message, "code": code, **error.more}, "user_id": "user_1"}

    def failure(self, request: ChatRequest, error: Refusal) -> bytes:
        choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": "error"}
        chunk = self.envelope(request, "chat.completion.chunk", [choice], None)
        return event(chunk | {"error": {"code": error.status, "message": error.message, **error.more}}) + DONE

    def reply(self, request: ChatRequest, reply: ChatReply) -> ChatReply:
        return replace(reply, reasoning=reply.reasoning or THOUGHTS)

    def envelope(self, request: ChatRequest, kind: str, choices: list[Json], used: Json | None) -> Json:
        return super().envelope(request, kind, choices, used) | {"provider": "Google AI Studio"}

    def opening(self, request: ChatRequest) -> bytes:
        return _COMMENT * 2 + super().opening(request)

    def thoughts(self, request: ChatRequest, reply: ChatReply) -> list[Json]:
        form = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
        said = [
            delta | {"content": "", "reasoning_details": [form | {"text": delta[self.reasoning_field]}]}
            for delta in super().thoughts(request, reply)
        ]
        signed = form | {"signature": signature("openrouter", reply.reasoning)}
        return [*said, {"content": "", "reasoning": None, "reasoning_details": [signed]}]

    def message(self, request: ChatRequest, reply: ChatReply) -> Json:
        detail = {"type": "reasoning.text", "text": reply.reasoning, "format": "anthropic-claude-v1", "index": 0}
        signed = detail | {"signature": signature("openrouter", reply.reasoning)}
        return super().message(request, reply) | {"reasoning_details": [signed]}

    def ending(self, request: ChatRequest, reply: ChatReply) -> bytes:
        last = self.chunk(request, {"role": "assistant", "content": ""}, self.finish_reason(reply))
        choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        used = self.usage(request, reply) | {"cost": 0.001, "is_byok": False}
        return last + event(self.envelope(request, "chat.completion.chunk", [choice], used)) + DONE
