"""What servers say when they refuse a request: its kind, and what is learned from it."""

from typing import Any

import pytest

from roboco.model.errors import ServerFailure, container_hint, model_error
from roboco.model.learned import Lessons
from tests.contract.model.model_calls import make_request

RETRY_INFO = [
    {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "RequestsPerMinute"}]},
    {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.4s"},
]
"""The details of a refusal of Google."""
TOO_LONG = [
    "prompt is too long: 213462 tokens > 200000 maximum",
    "Your input exceeds the context window of this model",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)",
    "tokens to keep from the initial prompt is greater than the context length",
    "prompt token count of 140000 exceeds the limit of 128000",
    "invalid params, context window exceeds limit (2013)",
    "Your request exceeded model token limit: 262144 (requested: 300000)",
    "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.",
    "Prompt tokens (300) exceeds context size (200)",
    "Range of input length should be [1, 30720]",
    "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
    "Prompt exceeds max length",
    "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000",
    "`inputs` tokens + `max_new_tokens` must be <= 8192. Given: 9000 `inputs` tokens",
    "context length exceeded",
    "Total tokens of image and text exceed max message tokens",
    "the max input characters is 2000",
    "total tokens exceeds the model's max of 4096",
    "max tokens of 4096 exceeded",
    "the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model",
    "The sequence length of 9000 exceeds the maximum sequence length of 8192",
    "Token limit exceeded: 150000 > 131072",
    "Too many total text bytes: 20000000 > 9000000",
    "Input is too long for requested model.",
    "The input (140007 tokens) is longer than the model's context length (131072 tokens).",
    "This model's maximum prompt length is 131072 but the request contains 139000 tokens.",
    "Trying to keep the first 5000 tokens when context overflows. The model is loaded with context length of only 4096",
    "context shift is disabled",
    "Input tokens (40000) exceed model limit",
    "total message token length exceed model limit",
]


@pytest.mark.parametrize("status", [0, 400])
def test_a_request_that_is_too_long_is_recognised(status: int) -> None:
    failures = [ServerFailure(status, {"error": {"message": words}}) for words in TOO_LONG]
    errors = [model_error(failure, make_request()) for failure in failures]
    assert [error.message for error in errors if error.code != "context_length"] == []


@pytest.mark.parametrize(
    ("body", "code", "quote"),
    [
        ([{"error": {"code": 400, "message": "Invalid value at 'tools[0]'"}}], "status", "Invalid value at 'tools[0]'"),
        ({"detail": "model has no tools"}, "status", "model has no tools"),
        (
            {"error": {"code": "tool_use_failed", "message": "Failed to call a function.", "failed_generation": "<x>"}},
            "malformed_call",
            "Failed to call a function",
        ),
    ],
)
def test_a_refusal_in_any_form_is_quoted(body: Any, code: str, quote: str) -> None:
    error = model_error(ServerFailure(400, body), make_request())
    assert error.code == code
    assert quote in error.message


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (403, "account balance is insufficient", "quota"),
        (400, "Access denied, please make sure your account is in good standing. Arrearage", "quota"),
        (429, {"error": {"message": "org is suspended", "type": "exceeded_current_quota_error"}}, "quota"),
        (403, "Your team has either used all available credits or reached its monthly spending limit.", "quota"),
        (400, "You have reached your specified API usage limits. You will regain access on 2026-12-01", "quota"),
        (403, "Key limit exceeded (total limit)", "quota"),
        (403, "your subscription payment is past due. update your payment method", "quota"),  # Ollama
        (403, {"code": "personal-team-blocked:spending-limit", "error": "You need a subscription"}, "quota"),
        (403, "Your newly created team doesn't have any credits yet", "quota"),
        (412, "Account x is suspended, possibly due to reaching the monthly spending limit", "quota"),
        (403, {"error": {"code": "AllocationQuota.FreeTierOnly", "message": "It is exhausted"}}, "quota"),
        (400, {"error": {"message": "Budget has been exceeded!", "type": "budget_exceeded"}}, "quota"),
        (429, "Too many tokens, please wait before trying again.", "rate_limit"),
        (400, "Output blocked by content filtering policy", "content_filter"),
        (403, "You don't have access to the model with the specified model ID.", "not_found"),
        (400, "Invalid model name passed in model=x", "not_found"),
        (400, {"error": {"message": "No api key passed in", "type": "auth_error"}}, "auth"),
        (0, "the provider ended the reply: malformed_tool_use", "malformed_call"),
        (0, "the provider ended the reply: UNEXPECTED_TOOL_CALL", "malformed_call"),  # Gemini
        (424, "Model produced invalid sequence as part of ToolUse.", "malformed_call"),  # Nova
        (429, "You exceeded your current quota. Please retry in 36s.", "rate_limit"),
        (429, "Number of request tokens has exceeded your per-minute rate limit", "rate_limit"),
        (400, "Content Exists Risk", "content_filter"),
        (403, {"error": {"message": "Input was flagged", "metadata": {"reasons": ["violence"]}}}, "content_filter"),
        (400, {"error": {"message": "Model Not Exist"}}, "not_found"),
        (404, {"error": "model 'x' not found, try pulling it first"}, "not_found"),
        (400, {"errors": [{"message": "API key not valid. Please pass a valid API key."}]}, "auth"),
        (400, "Invalid value at 'tools[0]'", "status"),
        (400, "max_tokens is too large: 5", "status"),
        # RooCodeInc/Roo-Code#3883 and continuedev/continue#9662: a minute's quota, and a model without any
        (
            429,
            "You exceeded your current quota.\n* Quota exceeded for metric: x, limit: 50\nPlease retry in 36s.",
            "rate_limit",
        ),
        (
            429,
            "You exceeded your current quota.\n* Quota exceeded for metric: x, limit: 0\nPlease retry in 16s.",
            "quota",
        ),
        # google-gemini/gemini-cli#8437: the same without the words
        (429, {"error": {"message": "You exceeded your current quota.", "details": RETRY_INFO}}, "rate_limit"),
        (429, "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 41000.", "context_length"),
        (429, "You have exceeded your monthly included credits for Inference Providers.", "quota"),
        (429, {"error": {"code": "1113", "message": "余额不足或无可用资源包,请充值。"}}, "quota"),
        (403, "Out of call volume quota. Quota will be replenished in 01:23:45.", "rate_limit"),
        # words of several kinds
        (403, "Your API key's rate limit tier does not allow this model", "auth"),
        (429, "Rate limit reached. Request too large for burst; retry after 2 seconds", "rate_limit"),
        (429, "Quota exceeded for metric x, limit: 0.5", "rate_limit"),
        (400, "Token usage exceeds your monthly limit", "quota"),
        (0, "Requested tokens would exceed rate limit of 30000 TPM", "rate_limit"),
        (400, "Access token lifetime exceeds maximum", "status"),
        (400, "max_tokens (100000) exceeds model limit", "status"),
        (498, "Flex tier capacity exceeded", "overloaded"),
        (400, "API key expired. Please renew the API key.", "auth"),
        (403, "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO", "content_filter"),
        (0, {"base_resp": {"status_code": 1026, "status_msg": "input new_sensitive"}}, "content_filter"),
        (400, "on-demand throughput is not supported. Retry with the ARN of an inference profile", "not_found"),
        # ollama/ollama#13710, ggml-org/llama.cpp#24644: the model's slip, and no outage
        (500, "error parsing tool call: raw='{\"a\":1', err=unexpected end of JSON input", "malformed_call"),
        (500, "Failed to parse input at pos 1360: <tool_call>", "malformed_call"),
    ],
)
def test_the_words_of_a_server_decide_the_kind(status: int, body: Any, code: str) -> None:
    assert model_error(ServerFailure(status, body), make_request()).code == code


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        # continuedev/continue#10920, RooCodeInc/Roo-Code#6680: the delay is in the words alone
        ("Rate limit reached: Limit 100000, Used 97050. Please try again in 9m38.016s. Need more tokens?", 578.016),
        ({"error": {"code": 429, "message": "* Quota exceeded\nPlease retry in 16.614023621s."}}, 16.614023621),
        ("Requests have exceeded token rate limit. Please retry after 26 seconds.", 26.0),
        ({"error": {"message": "You exceeded your current quota.", "details": RETRY_INFO}}, 34.4),
        ({"error": {"message": "Please retry in 2.5s.", "details": RETRY_INFO}}, 2.5),
        ("Rate limit reached. Please try again in 250ms.", 0.25),
        ("Rate limit reached. Please try again in 1h2m3s.", 3723.0),
        ("Please try again in a moment.", None),
        ("Please try again in 5 minutes.", 300.0),
        ("Your quota will reset after 26s.", 26.0),
        ("Please retry in 5 attempts.", None),
    ],
)
def test_a_delay_in_the_words_of_a_server_counts_as_a_retry_after(body: Any, seconds: float | None) -> None:
    assert model_error(ServerFailure(429, body), make_request()).retry_after == seconds
    assert model_error(ServerFailure(429, body, 2.0), make_request()).retry_after == 2.0


def test_a_refused_credential_of_aws_is_named() -> None:
    failure = ServerFailure(403, "The security token included in the request is expired")
    message = model_error(failure, make_request(provider="bedrock")).message
    assert "refuses the AWS credential of the agents worker (403); set a valid one: The security token" in message


@pytest.mark.parametrize(
    ("error", "retryable"),
    [({"code": 502, "message": "x"}, True), ({"type": "api_error"}, True), ({"code": 422}, False), ({}, False)],
)
def test_a_failure_of_the_server_within_a_stream_is_an_outage(error: dict[str, Any], retryable: bool) -> None:
    """After the first text, where such a reply is not repeated here: the turn is."""
    assert model_error(ServerFailure.within_stream({"error": error}), make_request()).retryable is retryable


def test_a_failed_model_of_bedrock_is_an_outage_of_a_reply() -> None:
    body = {"code": "modelStreamErrorException", "message": "The system encountered an unexpected error. Try again."}
    error = model_error(ServerFailure(424, body), make_request())
    assert (error.code, error.retryable) == ("model", True)
    assert model_error(ServerFailure(424, "x"), make_request()).retryable is False


def test_a_container_that_calls_itself_is_named_the_address_of_its_host() -> None:
    assert "host.docker.internal" in container_hint("http://localhost:11434/v1", True)
    for address, in_container in (("http://localhost:11434/v1", False), ("http://models:11434/v1", True), (None, True)):
        assert container_hint(address, in_container) == ""


TOOLS = [{"type": "function", "function": {"name": "temperature", "strict": True, "parameters": {}}}]
SENT = {
    "model": "m",
    "messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "hi"}],
    "stream": True,
    "stream_options": {"include_usage": True},
}


def refused(words: str, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": words, "type": "invalid_request_error", "param": param}}


def extra(*loc: str | int) -> dict[str, Any]:
    return {"detail": [{"type": "extra_forbidden", "loc": ["body", *loc], "msg": "Extra inputs are not permitted"}]}


TOOL_SCHEMAS = [
    # MoonshotAI/kimi-cli#2531, router-for-me/CLIProxyAPI#97, containers/kubernetes-mcp-server#758,
    # firecrawl/firecrawl#4512, ggml-org/llama.cpp#14227
    "tools.function.parameters is not a valid moonshot flavored json schema, details: <At path 'x': no type>",
    "Unknown name \"$schema\" at 'tools[0].function_declarations[0].parameters': Cannot find field.",
    "JSON schema conversion failed:\nPattern must start with '^' and end with '$'",
    "Failed to initialize samplers: failed to parse grammar",
    'JSON schema conversion failed:\nUnrecognized schema: {"description": "x"}',
    "`x` functionDeclaration `parameters.y` schema didn't specify the schema type field.",
    "json: cannot unmarshal array into Go struct field .tools.function.parameters.properties.type of type string",
    "Unsupported JSON schema fields: {'minItems', 'items'}",
    "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
]
ALTERNATION = [
    # vllm-project/vllm#6862, microsoft/autogen#1037
    "After the optional system message, conversation roles must alternate user/assistant/user/assistant/...",
    "deepseek-reasoner does not support successive user or assistant messages (messages[1] and messages[2])",
    "After the (optional) system message(s), user or tool message(s) should alternate with assistant message(s).",
    'messages: roles must alternate between "user" and "assistant", but found multiple "user" roles in a row',
]
EMPTY = [
    # vercel/ai#14612, tashfeenahmed/freellmapi#165, Portkey-AI/gateway#995
    "messages: text content blocks must be non-empty",
    "assistant messages must include non-empty content or tool_calls",
    "The content field in the Message object at messages.1 is empty. Add a ContentBlock object and try again.",
    "Invalid request: the message at position 2 with role 'assistant' must not be empty",
    "Assistant message must have either content or tool_calls, but not none.",
]


@pytest.mark.parametrize(
    ("words", "lesson"),
    [
        *((one, "schemas of tools") for one in TOOL_SCHEMAS),
        *((one, "joins neighbouring messages") for one in ALTERNATION),
        *((one, "no empty message") for one in EMPTY),
    ],
)
def test_a_refusal_of_messages_or_tools_changes_their_form_once(words: str, lesson: str) -> None:
    lessons, failure = Lessons(), ServerFailure(400, refused(words))
    assert lesson in lessons.learn(failure, SENT | {"tools": TOOLS})
    assert lessons.learn(failure, SENT | {"tools": TOOLS}) == ""
    assert lessons.omittable == []


@pytest.mark.parametrize(
    ("sent", "body", "lesson"),
    [
        (
            {"temperature": 0.5},
            refused("`temperature` may only be set to 1 when thinking is enabled."),
            "'temperature'",
        ),
        (
            {"temperature": 0.5, "top_p": 0.5},
            refused("`temperature` and `top_p` cannot both be specified for this model."),
            "'temperature'",
        ),
        (
            {"temperature": 0.4},
            refused("'temperature' does not support 0.4. Only the default (1) value"),
            "'temperature'",
        ),
        (  # aws-samples/sample-kolya-br-proxy#104
            {"temperature": 0.5},
            {"message": "This model doesn't support the temperature field. Remove temperature and try again."},
            "'temperature'",
        ),
        ({}, extra("stream_options"), "'stream_options'"),
        ({"seed": 1}, {"object": "error", "message": extra("seed")}, "'seed'"),  # Mistral
        (
            {"max_tokens": 99_999},
            refused("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"),
            "8192",
        ),
        (
            {"max_tokens": 5000},
            refused(
                "'max_tokens' is too large: 5000. This model's maximum context length is 4096 tokens and your request "
                "has 30 input tokens (5000 > 4096 - 30)."
            ),
            "no maximum",
        ),
        ({}, {"error": "property 'stream_options' is unsupported"}, "'stream_options'"),
        ({}, refused("Additional properties are not allowed ('stream_options' was unexpected)"), "'stream_options'"),
        ({"stop": ["x"]}, extra("stop"), "'stop'"),
        ({"stop": ["x"]}, {"error": "Argument not supported on this model: stop"}, "'stop'"),
        ({"stop": ["x"]}, refused("stop is not supported"), "'stop'"),
        ({"seed": 1}, {"message": "Malformed input request: #: extraneous key [seed] is not permitted"}, "'seed'"),
        ({"tool_choice": "required"}, refused("Tool choice must be auto"), "'tool_choice'"),
        ({"tool_choice": "required"}, refused("Thinking mode does not support this tool_choice"), "'tool_choice'"),
        (
            {"response_format": {"type": "json_schema"}},
            refused("'response_format.type' must be one of [text, json_object]"),
            "'response_format'",
        ),
        (
            {"response_format": {"type": "json_schema"}},
            refused("'response_format.type' must be 'json_object' or 'text'"),
            "'response_format'",
        ),
        (
            {"response_format": {"type": "json_schema"}},
            refused("This response_format type is unavailable now"),
            "'response_format'",
        ),
        (  # as Gemini's endpoint refuses it beside tools: openai/openai-agents-python#656
            {"response_format": {"type": "json_schema"}},
            refused("Function calling with a response mime type: 'application/json' is unsupported"),
            "'response_format'",
        ),
        ({"temperature": 0.5}, refused("invalid temperature: only 1 is allowed for this model"), "'temperature'"),
        ({"tool_choice": "required"}, refused("Thinking may not be enabled when tool_choice forces"), "'tool_choice'"),
        ({"reasoning": {"effort": "low"}}, refused("'reasoning.effort' is not supported"), "'reasoning'"),
        ({"service_tier": "flex"}, refused("Invalid service_tier argument", "service_tier"), "'service_tier'"),
        ({}, refused("Developer instruction is not enabled for models/gemma-3-27b-it"), "as a message of the user"),
        (
            {"max_tokens": 5000},
            refused("You passed 30 input tokens and requested 5000 output tokens. The context length is only 4096"),
            "no maximum",
        ),
        (
            {"messages": [{"role": "assistant", "content": "x", "reasoning": "y"}]},
            refused("Unrecognized request argument supplied", "messages[0].reasoning"),
            "no 'reasoning' of earlier replies",
        ),
        ({"tools": TOOLS}, extra("tools", 0, "function", "strict"), "'strict'"),
        ({"max_tokens": 100_000}, refused("Range of max_tokens should be [1, 8192]"), "at most 8192"),
        (
            {"max_tokens": 100_000},
            refused(
                "maxOutputTokens value of 100000 but the supported range is from 1 (inclusive) to 65537 (exclusive)"
            ),
            "at most 65536",
        ),
        (
            {"tools": TOOLS, "temperature": 0.5},
            refused("Invalid schema for function 'temperature': not supported", "tools[0].function.parameters"),
            "schemas of tools",
        ),
        ({"stop": ["x"], "user": "u"}, refused("Unexpected role: conversation must not stop with role user"), ""),
        ({"user": "u"}, refused("Invalid value: 'user'. Unsupported sequence", "messages[2].role"), ""),
        ({"stop": ["x"]}, refused("Unknown error, please stop and contact the support team"), ""),
        ({}, refused("set max_tokens to '5'"), ""),
        ({}, refused("set messages to 'x'"), ""),
    ],
)
def test_only_a_parameter_that_is_meant_is_changed(sent: dict[str, Any], body: Any, lesson: str) -> None:
    learned = Lessons().learn(ServerFailure(400, body), SENT | sent)
    assert (lesson in learned) == bool(learned or not lesson)
    assert bool(learned) == bool(lesson)
