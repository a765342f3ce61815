"""DeepSeek and Kimi in thinking mode: each answer has thoughts, which must return with its tool calls."""

from dataclasses import replace

from roboco.lab.servers.chat_protocol import ChatRefusal as Refusal
from roboco.lab.servers.chat_protocol import ChatReply, ChatRequest, Json, words
from roboco.lab.servers.dialect import DONE, event
from tests.support.servers.dialects.compatible import CompatibleDialect

THOUGHTS = "I think about it first. "
_MAX_TOKENS = 65_536


class DeepSeek(CompatibleDialect):
    """Refuses a message with calls that lacks its `reasoning_content`."""

    missing = (
        "Missing `reasoning_content` field in the assistant message at message index {}. For more information, please "
        "refer to https://api-docs.deepseek.com/guides/thinking_mode#tool-calls"
    )

    def check(self, request: ChatRequest) -> None:
        super().check(request)
        for n, message in enumerate(request.messages):
            if message.get("tool_calls") and not message.get("reasoning_content"):
                raise self.refusal(self.missing.format(n))

    def check_model(self, body: Json) -> None:
        super().check_model(body)
        if (body.get("max_tokens") or 1) > _MAX_TOKENS:
            raise self.refusal(f"Invalid max_tokens value, the valid range of max_tokens is [1, {_MAX_TOKENS}]")
        if body.get("tool_choice") not in (None, "auto", "none"):
            raise self.refusal("deepseek-reasoner does not support this tool_choice")
        if (body.get("response_format") or {}).get("type") == "json_schema":
            raise self.refusal("This response_format type is unavailable now")

    def refusal(self, message: str) -> Refusal:
        """Return a refusal in the form of this provider."""
        return Refusal(message, code="invalid_request_error")

    def reply(self, request: ChatRequest, reply: ChatReply) -> ChatReply:
        return replace(reply, reasoning=reply.reasoning or THOUGHTS)

    def usage(self, request: ChatRequest, reply: ChatReply) -> Json:
        used = super().usage(request, reply)
        return used | {
            "prompt_cache_hit_tokens": 0,
            "prompt_cache_miss_tokens": used["prompt_tokens"],
            "completion_tokens_details": {"reasoning_tokens": len(words(reply.reasoning))},
        }

    def ending(self, request: ChatRequest, reply: ChatReply) -> bytes:
        choice = {"index": 0, "delta": {"content": ""}, "finish_reason": self.finish_reason(reply)}
        used = self.usage(request, reply)
        return event(self.envelope(request, "chat.completion.chunk", [choice], used)) + DONE


class Kimi(DeepSeek):
    """As DeepSeek, in the words of Moonshot."""

    missing = "thinking is enabled but reasoning_content is missing in assistant tool call message at index {}"

    def refusal(self, message: str) -> Refusal:
        return Refusal(message, type="invalid_request_error")
