"""reported_usage: the tokens of a request, in each form in which servers of chat completions report them.

| part | names |
|---|---|
| input | `prompt_tokens`, `input_tokens` |
| output | `completion_tokens`, `output_tokens` |
| read from a cache | `prompt_tokens_details.cached_tokens`, `prompt_cache_hit_tokens` (DeepSeek), |
| | `cached_tokens` (Kimi), `cache_read_input_tokens` (Anthropic) |
| written to a cache | `cache_creation_input_tokens` (Anthropic), |
| | `prompt_tokens_details.cache_write_tokens` (OpenRouter), |
| | `prompt_tokens_details.cache_creation_input_tokens` (DashScope) |
| reasoning | `completion_tokens_details.reasoning_tokens`, `reasoning_tokens` |

Most servers count cached tokens as input, and reasoning as output. Some do not: Anthropic's own count of input excludes
the cache, Mistral's excludes audio, xAI's and Gemini's count of output excludes reasoning. The reported total decides,
and where there is none, that a part is never larger than the whole. OpenRouter counts what Gemini reads from a cache as
written too.
"""

from typing import Any

from roboco.domain.usage import ModelUsage
from roboco.model.reply_assembly import MAX_TOKEN_COUNT, token_count

_CACHE_WRITE = "cache_creation_input_tokens"


def reported_usage(chunk: dict[str, Any], choice: dict[str, Any]) -> ModelUsage | None:
    """Return the usage that a chunk reports, or None."""
    for place in (chunk, chunk.get("x_groq"), choice, choice.get("delta"), choice.get("message")):
        usage = place.get("usage") if isinstance(place, dict) else None
        if isinstance(usage, dict) and (read := _read(usage)) != ModelUsage():
            return read
    return None


def _read(usage: dict[str, Any]) -> ModelUsage:
    tokens_in = _first(usage, "prompt_tokens", "input_tokens")
    tokens_out = _first(usage, "completion_tokens", "output_tokens")
    total = token_count(usage.get("total_tokens"))
    tokens_in = tokens_in or max(0, total - tokens_out)
    details_in = _details(usage, "prompt_tokens_details", "input_tokens_details")
    details_out = _details(usage, "completion_tokens_details", "output_tokens_details")
    cached = _first(
        usage | {"of_prompt": details_in.get("cached_tokens")},
        *("of_prompt", "prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens"),
    )
    write = _first(
        usage | {"of_prompt": _first(details_in, "cache_write_tokens", "cache_creation_tokens", _CACHE_WRITE)},
        *("of_prompt", _CACHE_WRITE),
    )
    reasoning = _first(usage | {"of_reply": details_out.get("reasoning_tokens")}, "of_reply", "reasoning_tokens")
    beside, counted = cached + write, tokens_in + tokens_out
    is_part = total == counted and max(cached, write) <= tokens_in
    if beside and (total == counted + beside or _is_anthropic(usage) or (beside > tokens_in and not is_part)):
        tokens_in += beside
    elif total == counted + (audio := token_count(details_in.get("audio_tokens"))):
        tokens_in += audio
    if reasoning > tokens_out or (reasoning and total == tokens_in + tokens_out + reasoning):
        tokens_out += reasoning
    elif not reasoning and not beside and tokens_in and total > tokens_in + tokens_out:
        reasoning = total - tokens_in - tokens_out
        tokens_out += reasoning
    limit = MAX_TOKEN_COUNT
    return ModelUsage(min(tokens_in, limit), min(tokens_out, limit), cached, write, min(reasoning, limit))


def _is_anthropic(usage: dict[str, Any]) -> bool:
    """Return True if the usage has the form of Anthropic's own protocol, whose input excludes the cache."""
    return "cache_read_input_tokens" in usage and "input_tokens" in usage and "prompt_tokens" not in usage


def _first(usage: dict[str, Any], *names: str) -> int:
    """Return the first of these counts that is not 0, or 0."""
    return next((count for name in names if (count := token_count(usage.get(name)))), 0)


def _details(usage: dict[str, Any], *names: str) -> dict[str, Any]:
    return next((found for name in names if isinstance(found := usage.get(name), dict)), {})
