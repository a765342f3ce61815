"""errors: what model servers say when they fail, as ModelErrors that a user can act on.

    status, headers, body ─┐                ┌─ code: the kind of the failure, from the table KINDS, else by the status
    error in a stream ─────┼─► ServerFailure┼─ message: subject, problem as the server words it, remedy
    no connection, silence ┘                └─ retryable: True for an outage; the same request may succeed later

A failure is an outage if the server cannot be reached, sends nothing, is overloaded or at its rate limit. Anything else
would fail in the same way again, perhaps after the provider has charged for it.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import unquote, unquote_plus, urlsplit

from roboco.domain.canonical_json import well_formed
from roboco.errors import ModelError
from roboco.model.allowlist import base_url_of, key_variable
from roboco.ports.model import Request

RATE_LIMIT = "rate_limit"
"""The code of a ModelError that the caller waits out. Not this process alone: all processes share the limit."""
CONTEXT_LENGTH = "context_length"
"""The code of a request that is longer than its model's context."""
MALFORMED_CALL = "malformed_call"
"""The code of a reply that the provider has withheld, because its tool call is malformed."""
MAX_MESSAGE_CHARS = 400
"""Characters of the message of a ModelError."""
_MAX_QUOTED_CHARS = 200
"""Characters of a server's message, before a remedy."""
_MIN_SECRET_CHARS = 4
"""Characters from which on a value is masked. A shorter one is no secret, and part of many words and numbers."""
_MIN_QUERY_CHARS = 8
"""Characters from which on a value of an address' query may be a key."""
_OUTAGE_STATUSES = frozenset({408, 409, 425})
_OUTAGE = re.compile(
    r"\b(?:server_error|internal_error|internal_server_error|api_error|timeout_error|Model(?:Stream)?ErrorException)\b",
    re.IGNORECASE,
)
"""Labels of a failure of the server itself, within a stream."""
_OF_REPLY = frozenset({0, 424})
"""Statuses of failures within a reply. Bedrock gives 424 to those of the model."""
_CODES_OF_STATUSES = {
    401: "auth",
    402: "quota",
    403: "auth",
    404: "not_found",
    413: CONTEXT_LENGTH,
    429: RATE_LIMIT,
    498: "overloaded",
    503: "overloaded",
    529: "overloaded",
}
"""The kind of a failure whose words match none."""


@dataclass(frozen=True)
class FailureKind:
    """A kind of failure, and how to recognise it in the words of a server."""

    code: str
    pattern: re.Pattern[str]
    """Matches the code, type and message of the failure, joined by spaces."""
    problem: str
    remedy: str = ""
    statuses: frozenset[int] = frozenset()
    """The HTTP statuses with which servers report it, or none if any is possible. An error in a stream has none."""
    retryable: bool = False


def _kind(
    code: str, pattern: str, problem: str, remedy: str = "", *statuses: int, retryable: bool = False
) -> FailureKind:
    words = re.compile(pattern, re.IGNORECASE | re.DOTALL)
    return FailureKind(code, words, problem, remedy, frozenset(statuses), retryable)


_DELAY = re.compile(
    r"(?:retry|try again|reset) (?:in|after) (?:(\d{1,4}) ?h[a-z]* ?)?(?:(\d{1,4}) ?m(?!s|il)[a-z]* ?)?"
    r"(?:(\d{1,6}(?:\.\d{1,9})?) ?s)?(?:(\d{1,9}(?:\.\d{1,9})?) ?m(?:s|il))?",
    re.IGNORECASE,
)
"""A time such as "9m38.016s", "26 seconds" or "250ms", as hours, minutes, seconds and milliseconds."""
_TOO_LONG = (
    "the request is too long for the model",
    "give its agent `context: {strategy: budget, tokens: 8000}` in the team file, with fewer tokens than the model "
    "takes, or its profile a `context_window`",
)
KINDS = (
    _kind(
        MALFORMED_CALL,
        r"tool_use_failed|failed to call a function|failed_generation|malformed_function_call|unexpected_tool_call"
        r"|malformed_tool_use|malformed_model_output|invalid sequence as part of ToolUse"
        r"|tool call validation failed|failed to generate tool"
        r"|(?:error parsing|failed to parse) (?:the )?tool call|tool call parsing failed|failed to parse input at pos",
        "the model wrote a tool call that its server cannot read",
        "use a larger model, or `tool_calls: json` in its profile",
    ),
    _kind(
        CONTEXT_LENGTH,
        r"context_length_exceeded|exceed_context_size|string_above_max_length|maximum context length|context window"
        r"|ContextWindow|context size|context length of only|model'?s context length|prompt is too long"
        r"|input is too long|maximum prompt length"
        r"|exceed\w* (?:the )?(?:\w+ ){0,3}(?:context|prompt|input|tokens?) (?:limit|length)"
        r"|exceed\w* (?:the )?(?:\w+ ){0,4}number of tokens|input token count|reduce the length of (?:the|your)"
        r"|(?:prompt|input|messages?|request)(?: \S+){0,4} too (?:long|large)\b(?!.{0,20}field)"
        r"|too many (?:input |prompt )?tokens(?!.{0,30}wait)|too many total text bytes|tokens? (?:limit )?exceeded"
        r"|max tokens of \d+ exceeded|(?:maximum|supported) sequence length"
        r"|reduce your message size|input length(?: \S+){0,6} exceed|longer than the (?:model|maximum|context)"
        r"|(?<!access )(?<!auth )(?<!budget )\b(?:tokens?(?! per)|prompt)(?: length| count| \(\d+\))? exceeds?"
        r"(?:(?! (?:rate|monthly|daily|plan)\b) \S+){0,5} (?:context|window|max\w*|limit)"
        r"|request_too_large|context shift is disabled|maximum context limit"
        r"|(?:context|prompt|input) length exceeded|greater than the context length|exceeds max(?:imum)? length"
        r"|token count(?: \S+){0,3} exceeds|range of input length|max input characters|exceed max message tokens"
        r"|inputs?['\"`]? (?:must have less than|tokens \+)|not exceed max_num_tokens|request more than max tokens",
        *_TOO_LONG,
        *(400, 413, 422, 500),
    ),
    _kind(
        CONTEXT_LENGTH, r"request too large for.{0,300}(?:tokens per min|requested \d)", *_TOO_LONG, 429
    ),  # for the tokens of a minute: never accepted
    _kind(
        "quota",
        r"insufficient_quota|insufficient[ _]balance|insufficient[ _](?:funds|credits?)|credit balance is too low"
        r"|payment (?:required|is past due)|out of credits?|(?:any|no) credits|requires more credits|billing_hard_limit"
        r"|billing_not_active|billing_error|budget_exceeded|key limit exceeded|FreeTierOnly"
        r"|account_deactivated|exceeded_current_quota|balance is insufficient|arrearage|available credits"
        r"|specified api usage limits|(?:monthly|spend(?:ing)?)[ -](?:spend )?limit(?!.{0,400}retry)"
        r"|exceeded your (?:current|monthly) (?:quota|spend)(?!.{0,1000}retry)|quota exceeded.{0,200}limit: 0(?![.\d])"
        r"|included credits|extra usage is required|余额不足|欠费",
        "the account has no credit left",
        "add credit, or change the account",
        *(400, 402, 403, 412, 429),
    ),
    _kind(
        "content_filter",
        r"content[ _]filter|content[ _]policy|content management policy|ResponsibleAI|data_inspection_failed|flagged"
        r"|moderation|safety system|prompt_blocked|inappropriate content|content_blocked|content exists risk|敏感内容"
        r"|new_sensitive|violates usage guidelines",
        "a filter of the provider refuses the prompt or the reply",
        "change what the agent is asked or shown, or the provider's filter",
        *(400, 403, 422),
    ),
    _kind(
        "not_found",
        r"model_not_found|model_decommissioned|unknown_model|invalid[ _]model\b|access to the model|no such model"
        r"|unknown model|not a valid model|model identifier is invalid"
        r"|model\b.{0,80}(?:does not exist|not found|not exist|is not available|has no access"
        r"|decommissioned|not supported by|is not supported for)|no endpoints (?:found|available)|DeploymentNotFound"
        r"|ARN of an inference profile",
        "the server does not have the model",
        "correct `model` or `base_url` in the profile",
        *(400, 403, 404, 422),
    ),
    _kind(
        "auth",
        r"invalid[ _]api[ _]key|incorrect api key|api key not valid|invalid x-api-key|auth(?:entication)?[ _]error"
        r"|API_KEY_INVALID|api key expired",
        "the server refuses the key",
        "set a valid one",
        *(400, 401, 403),
    ),
    _kind(
        RATE_LIMIT,
        r"rate_limit|rate limit|too many requests|RESOURCE_EXHAUSTED|throttl|\b429\b|exceeded your current quota",
        "is at its rate limit",
        "",
        *(429, 503),
        retryable=True,
    ),
    _kind(
        RATE_LIMIT,
        r"call volume quota|rate limit (?:exceeded|reached)",
        "is at its rate limit",
        "",
        403,
        retryable=True,
    ),
    _kind(
        "overloaded", r"overloaded|\b(?:503|529)\b|(?:at|over) capacity", "is overloaded", "", 503, 529, retryable=True
    ),
)
"""The kinds of failures, in the order in which they are tried: a text may match several."""


class ServerFailure(Exception):
    """A server has refused or broken off a request.

    `status` is 0 if the refusal is part of a reply. `sent` are the parameters of a request that was refused.
    """

    def __init__(
        self, status: int, body: Any, retry_after: float | None = None, sent: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(status, body)
        self.status = status
        self.body = body
        self.retry_after = _delay_in(failure_text(body)) if retry_after is None else retry_after
        self.sent = sent or {}

    @classmethod
    def within_stream(cls, body: Any) -> Self:
        """Return the failure of a reply that holds this error."""
        return cls(0, body)

    @property
    def text(self) -> str:
        """The message of the server, in its own words."""
        return failure_text(self.body)

    @property
    def labels(self) -> str:
        """The code, type and parameter that the server names, joined by spaces."""
        return " ".join(str(value)[:100] for value in _values_of(self.body, _LABEL_FIELDS))

    @property
    def places(self) -> list[str]:
        """The parts of the request that the server names as wrong, such as "messages[0].role"."""
        return [str(value)[:200] for value in _values_of(self.body, ("param", "loc"))]

    @property
    def in_words(self) -> str:
        """The labels and the text, in which kinds are recognised."""
        return f"{self.labels} {self.text}"[:4000]


_TEXT_FIELDS = (
    *("error", "errors", "message", "detail", "msg", "title", "status_msg", "error_msg", "error_message"),
    *("errorMessage", "error_description"),
)
_HOLDERS = ("error", "errors", "message", "detail")
_LABEL_FIELDS = ("code", "type", "status", "param", "error_code", "status_code")


def failure_text(body: Any, depth: int = 0) -> str:
    """Return the message of an error body of any shape."""
    if isinstance(body, str):
        return _text_of_string(body, depth)
    if isinstance(body, list):
        return "; ".join(filter(None, (failure_text(one, depth + 1) for one in body[:5]))) if depth < 6 else ""
    if not isinstance(body, dict) or depth > 6:
        return "" if body is None else str(body)[:1000]
    parts = [failure_text(body[name], depth + 1) for name in _TEXT_FIELDS if body.get(name)]
    metadata = body.get("metadata")
    if isinstance(metadata, dict) and metadata.get("raw"):  # OpenRouter quotes the provider behind it here
        parts.append(failure_text(metadata["raw"], depth + 1))
    if isinstance(details := body.get("details"), list) and not any("retry" in part for part in parts):  # Google's
        parts += [f"retry in {delay}" for one in details for delay in _values_of(one, ("retryDelay",))]
    if isinstance(place := body.get("loc"), list):
        parts.insert(0, ".".join(str(one)[:50] for one in place[:8]))
    found = ": ".join(dict.fromkeys(filter(None, parts)))
    return found or json.dumps(body, ensure_ascii=False, default=str)[:1000]


def _text_of_string(body: str, depth: int) -> str:
    text = body.strip()[:20_000]
    if depth < 4 and text[:1] in ("{", "["):
        try:
            return failure_text(json.loads(text), depth + 1)
        except (ValueError, RecursionError):
            return text
    if text[:1] == "<":
        title = re.search(r"<title[^>]*>([^<]{1,200})", text, re.IGNORECASE)
        words = title[1] if title else re.sub(r"<[^>]{0,500}>", " ", text[:4000])
        return f"a page instead of a reply: {' '.join(words.split())[:200]}"
    return text


def _values_of(body: Any, names: tuple[str, ...], depth: int = 0) -> list[Any]:
    """Return the values of these fields in a body and the errors that it holds."""
    if isinstance(body, list) and body and depth < 4:
        return _values_of(body[0], names, depth + 1)
    if not isinstance(body, dict) or depth > 4:
        return []
    own = [_joined(body[name]) for name in names if isinstance(body.get(name), str | int | list)]
    inner = [_values_of(body[name], names, depth + 1) for name in _HOLDERS if name in body]
    return own + [value for values in inner for value in values]


def _joined(value: Any) -> Any:
    """Return a path as FastAPI gives it, without its first word, in one text."""
    return ".".join(str(one)[:50] for one in value[:8]).removeprefix("body.") if isinstance(value, list) else value


def _delay_in(text: str) -> float | None:
    """Return after how many seconds the text says to try again, or None. Gemini and Azure say it in no header."""
    found = _DELAY.search(text[:4000])
    if found is None or not any(found.groups()):
        return None
    units = (3600.0, 60.0, 1.0, 0.001)
    return sum(float(one or 0) * unit for one, unit in zip(found.groups(), units, strict=True))


def model_error(failure: ServerFailure, request: Request) -> ModelError:
    """Return the ModelError of a failure. What it quotes is without the model's key."""
    status = failure.status
    for kind in KINDS:
        possible = not (status and kind.statuses) or status in kind.statuses
        if possible and kind.pattern.search(failure.in_words):
            return _error_of(kind, failure, request)
    numbers = [] if status else re.findall(r"(?<!\d)[45]\d\d(?!\d)", failure.labels)  # its code may be a status
    if code := _CODES_OF_STATUSES.get(int(numbers[0]) if numbers else status):
        return _error_of(next(kind for kind in KINDS if kind.code == code), failure, request)
    model, quoted = request.profile.model, redact_secrets(failure.text, request)
    if status in _OF_REPLY:
        code = "status" if any(number.startswith("4") for number in numbers) else "model"
        outage = any(number.startswith("5") for number in numbers) or bool(_OUTAGE.search(failure.labels))
        return ModelError(code, f"model {model!r} failed: {quoted}", outage and code == "model")
    retryable = status >= 500 or status in _OUTAGE_STATUSES
    message = f"model {model!r} answers {status}: {quoted}"
    return ModelError("status", message, retryable, failure.retry_after)


def _error_of(kind: FailureKind, failure: ServerFailure, request: Request) -> ModelError:
    profile = request.profile
    key = key_variable(profile)
    where = f" ({failure.status})" if failure.status else ""
    subject = f"model {request.profile.model!r}"
    quoted = redact_secrets(failure.text, request)[:_MAX_QUOTED_CHARS].rstrip(". ")
    if kind.code == "auth":
        keyless = (
            "the AWS credential of the agents worker" if profile.provider == "bedrock" else "a request without a key"
        )
        named = f"the key in {key}" if key else keyless
        if profile.api_key is not None:
            named = f"credential {profile.api_key.credential!r} of tenant {request.tenant!r}"
        return ModelError("auth", f"{subject} refuses {named}{where}; {kind.remedy}: {quoted}", False)
    problem = f"{subject} {kind.problem}" if kind.retryable else f"{subject}: {kind.problem}"
    remedy = f"; {kind.remedy}" if kind.remedy else ""
    message = f"{problem}{where}: {quoted}{remedy}"
    later = failure.retry_after if kind.retryable else None
    return ModelError(kind.code, message, kind.retryable, later)


def redact_error(error: ModelError, request: Request) -> ModelError:
    """Return the error as well-formed text of bounded length, without the model's key."""
    message = redact_secrets(error.message, request)[:MAX_MESSAGE_CHARS]
    return ModelError(error.code, message, error.retryable, error.retry_after, error.tokens_in, error.tokens_out)


def redact_secrets(text: str, request: Request) -> str:
    """Return the text, well-formed and with "***" in place of the model's key, its headers and its address' query.

    Call it before any truncation: a truncated key would not be found.
    """
    names = (key_variable(request.profile), *request.profile.headers.values())
    pairs = [pair.partition("=") for pair in urlsplit(base_url_of(request.profile) or "").query.split("&")]
    query = [(name, shown) for name, _, value in pairs for shown in (value, unquote(value), unquote_plus(value))]
    secrets = [request.credential, *(os.environ.get(name, "") for name in names if name)]
    secrets += [value for name, value in query if len(value) >= _MIN_QUERY_CHARS and name != "api-version"]
    clean = well_formed(text)
    for secret in sorted(secrets, key=len, reverse=True):
        clean = clean.replace(secret, "***") if len(secret) >= _MIN_SECRET_CHARS else clean
    return clean


def container_hint(base_url: str | None, in_container: bool) -> str:
    """Return how a container reaches a server of its host, if the address is one of the container itself, or ""."""
    host = urlsplit(base_url or "").hostname
    if not in_container or host not in ("localhost", "127.0.0.1", "::1"):
        return ""
    return f"; in a container, {host} is the container: a server on its host is at host.docker.internal"
