"""Translation of a model server's errors into ModelErrors that a user can act on."""

import os
import re

import openai

from roboco.adapters.model.allowlist import key_variable
from roboco.adapters.retry_after import parse_retry_after as parse_retry_after
from roboco.adapters.retry_after import parse_seconds
from roboco.domain.canonical_json import well_formed
from roboco.errors import ModelError
from roboco.ports.model import Request

RATE_LIMIT_CODE = "rate_limit"
"""The code of a ModelError that the caller waits out. Not this process alone: all processes share the limit."""

_RETRYABLE_STATUSES = frozenset({408, 409, 425})
_RATE_LIMIT_CODES = frozenset({"429", "rate_limit_exceeded", "rate_limit_error"})
_QUOTA_CODE = "insufficient_quota"
_CONTEXT_LENGTH_PATTERN = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|context window|ContextWindow|"
    r"available context size|prompt is too long|exceed context limit|input token count",
    re.IGNORECASE,
)
"""Matches the wordings of servers for a request longer than the model's context, in a code, a type or a message."""
_TOO_LONG_STATUSES = frozenset({400, 413, 422})
"""HTTP statuses with which servers reject a request that is too long."""
_MAX_QUOTED_CHARS = 160
"""Maximum length of the quotation of a server's message before a remedy."""
_RESPONSE_FORMAT_PATTERN = re.compile(r"response_format|json_schema|schema|grammar|structured", re.IGNORECASE)


def model_error(error: openai.OpenAIError, request: Request) -> ModelError:
    """Return the ModelError for an error of the openai package. It never contains the model's key."""
    return redact_error(_translate(error, request), request)


def redact_error(error: ModelError, request: Request) -> ModelError:
    """Return the error as well-formed text of at most 400 characters, without the model's key."""
    return ModelError(error.code, _redact_key(error.message, request)[:400], error.retryable, error.retry_after)


def _redact_key(text: str, request: Request) -> str:
    """Return the text, well-formed and with "***" in place of the model's key.

    Call it before any truncation: a truncated key would not be found.
    """
    secret = os.environ.get(key_variable(request.profile), "")
    return well_formed(text).replace(secret, "***") if secret else well_formed(text)


def retry_after(error: Exception) -> float | None:
    """Return after how many seconds the provider accepts another request, or None if it does not say.

    Reads `retry-after-ms`, or Retry-After in both of its forms.
    """
    if not isinstance(error, openai.APIStatusError):
        return None
    headers = error.response.headers
    milliseconds = parse_seconds(headers.get("retry-after-ms", ""))
    return parse_retry_after(headers.get("retry-after", "")) if milliseconds is None else milliseconds / 1000


def rejects_response_format(error: ModelError) -> bool:
    """Return True if the server rejected the response format."""
    cause = error.__cause__
    if not isinstance(cause, openai.BadRequestError | openai.UnprocessableEntityError):
        return False
    return _RESPONSE_FORMAT_PATTERN.search(_error_body(cause)) is not None


def _translate(error: openai.OpenAIError, request: Request) -> ModelError:
    model = request.profile.model
    match error:
        case openai.APIStatusError():
            return _status_error(error, request)
        case openai.APIConnectionError():
            cause = error.__cause__ or error
            return ModelError("connection", f"model {model!r} cannot be reached: {cause}", True)
        case openai.APIError() if _exceeds_context(error):
            return _context_length_error(request, error.message)
        case openai.APIError() if _QUOTA_CODE in (error.code, error.type):
            return _quota_error(request, f"(within its answer): {error.message}")
        case openai.APIError() if str(error.code) in _RATE_LIMIT_CODES or error.type in _RATE_LIMIT_CODES:
            return ModelError(RATE_LIMIT_CODE, f"model {model!r} is at its rate limit: {error!s}", True)
        case _:
            return ModelError("model", f"model {model!r} failed: {error!s}", not _is_client_error(error))


def _status_error(error: openai.APIStatusError, request: Request) -> ModelError:
    model = request.profile.model
    match error:
        case openai.AuthenticationError() | openai.PermissionDeniedError():
            key = key_variable(request.profile) or "no variable"
            message = f"model {model!r} refuses the key in {key} ({error.status_code}); set a valid one"
            return ModelError("auth", message, False)
        case openai.NotFoundError():
            return ModelError("not_found", f"model {model!r} is not there (404): {_error_body(error)}", False)
        case openai.RateLimitError() if _QUOTA_CODE in (error.code, error.type):
            return _quota_error(request, f"(429): {_error_body(error)}")
        case openai.RateLimitError():
            message = f"model {model!r} is at its rate limit (429): {_error_body(error)}"
            return ModelError(RATE_LIMIT_CODE, message, True, retry_after(error))
        case _ if error.status_code in _TOO_LONG_STATUSES and _exceeds_context(error):
            return _context_length_error(request, _error_body(error))
        case _:
            retryable = error.status_code >= 500 or error.status_code in _RETRYABLE_STATUSES
            message = f"model {model!r} answers {error.status_code}: {_error_body(error)}"
            return ModelError("status", message, retryable, retry_after(error))


def _is_client_error(error: openai.OpenAIError) -> bool:
    """Return True if an error within a stream has the code of a client error, which no second request would change."""
    code = str(getattr(error, "code", ""))
    return re.fullmatch("4[0-9][0-9]", code) is not None and int(code) not in _RETRYABLE_STATUSES


def _exceeds_context(error: openai.APIError) -> bool:
    """Return True if the server reports that the request is longer than its model's context."""
    text = error.message if not isinstance(error, openai.APIStatusError) else _error_body(error)
    return _CONTEXT_LENGTH_PATTERN.search(f"{error.code} {error.type} {text}") is not None


def _context_length_error(request: Request, message_text: str) -> ModelError:
    quoted = _redact_key(message_text, request)[:_MAX_QUOTED_CHARS].rstrip(". ")
    message = (
        f"the request is too long for model {request.profile.model!r}: {quoted}; give its agent "
        "`context: {strategy: budget, tokens: 8000}` in the team file, with fewer tokens than the model takes"
    )
    return ModelError("context_length", message, False)


def _quota_error(request: Request, message_text: str) -> ModelError:
    quoted = _redact_key(message_text, request)[:_MAX_QUOTED_CHARS]
    message = f"the account of model {request.profile.model!r} has no credit left {quoted}; add some, or change it"
    return ModelError("quota", message, False)


def _error_body(error: openai.APIStatusError) -> str:
    body = error.body
    message = body.get("message") if isinstance(body, dict) else None
    return str(message or (body if isinstance(body, str) else "") or error.message)
