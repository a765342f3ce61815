"""Gemini's endpoint for OpenAI's protocol: signatures of thoughts that must return, calls that share an index."""

from roboco.lab.servers.chat_protocol import ChatRefusal as Refusal
from roboco.lab.servers.chat_protocol import ChatReply, ChatRequest, Json
from tests.support.servers.dialects.compatible import CompatibleDialect, call_messages, signature
from tests.support.servers.dialects.openai_types import unknown_parameters

_STATUSES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}
_PARAMETERS = ("extra_body",)
_MISSING = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, "
    "and missing thought_signature may lead to degraded model performance. Additional data, function call "
    "`default_api:{}` , position {}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more "
    "details."
)


class Gemini(CompatibleDialect):
    """The first call of each answer has a signature, which must return until the next message of the user."""

    chat_path = "/chat/completions"

    def check(self, request: ChatRequest) -> None:
        super().check(request)
        for n, message in call_messages(request):
            call = message["tool_calls"][0]
            google = (call.get("extra_content") or {}).get("google") or {}
            name = call["function"]["name"]
            if "thought_signature" not in google:
                raise Refusal(_MISSING.format(name, n))
            if google["thought_signature"] != signature("gemini", name):
                raise Refusal("Corrupted thought signature.")

    def check_names(self, body: Json) -> None:
        for name in unknown_parameters(body):
            if name not in _PARAMETERS:
                raise Refusal(f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.')

    def error_body(self, error: Refusal) -> object:
        status = _STATUSES.get(error.status, "UNAVAILABLE" if error.status == 503 else "INTERNAL")
        return [{"error": {"code": error.status, "message": error.message, "status": status}}]

    def call_id(self, request: ChatRequest, n: int) -> str:
        return f"function-call-{int(request.digest, 16) + n}"

    def calls(self, request: ChatRequest, reply: ChatReply) -> list[Json]:
        calls = super().calls(request, reply)
        if calls:
            signed = {"google": {"thought_signature": signature("gemini", calls[0]["function"]["name"])}}
            calls[0]["extra_content"] = signed
        return calls

    def call_deltas(self, index: int, call: Json) -> list[Json]:
        return [{**call, "index": 0}]

    def finish_reason(self, reply: ChatReply) -> str:
        return reply.finish_reason or "stop"
