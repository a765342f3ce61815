"""Azure OpenAI: deployments in the path, `api-version`, results of content filters, a first chunk without choices."""

import re

from roboco.lab.servers.chat_protocol import ChatRefusal as Refusal
from roboco.lab.servers.chat_protocol import ChatReply, ChatRequest, Json
from roboco.lab.servers.dialect import Stream, event
from tests.support.servers.dialects.openai import OpenAIDialect

_SAFE = {name: {"filtered": False, "severity": "safe"} for name in ("hate", "self_harm", "sexual", "violence")}
_STREAM_OPTIONS_SINCE = "2024-09-01"
_FILTERED = (
    "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify "
    "your prompt and retry. To learn more about our content filtering policies please read our documentation: "
    "https://go.microsoft.com/fwlink/?linkid=2198766"
)


class Azure(OpenAIDialect):
    """Takes requests to /openai/deployments/NAME with an api-version, and to /openai/v1.

    filtered: a text that its filter refuses.
    """

    chat_path = "/chat/completions"

    def __init__(self, context_window: int | None = None, filtered: str = "") -> None:
        super().__init__(context_window)
        self._filtered = filtered

    def check(self, request: ChatRequest) -> None:
        version = re.search(r"(?:^|&)api-version=([0-9a-z-]+)", request.query)
        if "/v1/" not in request.path and version is None:
            raise Refusal("Resource not found", status=404, code="404")
        if version is not None and version[1][:10] < _STREAM_OPTIONS_SINCE and "stream_options" in request.body:
            raise Refusal("Unrecognized request argument supplied: stream_options")
        super().check(request)
        if self._filtered and self._filtered in str(request.messages):
            found = _SAFE | {"violence": {"filtered": True, "severity": "medium"}}
            inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": found}
            raise Refusal(_FILTERED, param="prompt", code="content_filter", type=None, innererror=inner)

    def check_key(self, request: ChatRequest) -> None:
        bearer = request.headers.get("authorization", "").startswith("Bearer ")
        if not bearer and not request.headers.get("api-key"):
            message = (
                "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key "
                "for an active subscription and use a correct regional API endpoint for your resource."
            )
            raise Refusal(message, status=401, code="401")

    def chunk(self, request: ChatRequest, delta: Json, reason: str | None = None) -> bytes:
        found = _SAFE if delta.get("content") else {}
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "content_filter_results": found}
        return event(self.envelope(request, "chat.completion.chunk", [choice], None))

    def stream(self, request: ChatRequest, reply: ChatReply) -> Stream:
        stream = super().stream(request, reply)
        results = [{"prompt_index": 0, "content_filter_results": _SAFE}]
        first = {"choices": [], "created": 0, "id": "", "model": "", "object": "", "prompt_filter_results": results}
        return Stream(event(first) + stream.opening, stream.chunks, stream.ending)
