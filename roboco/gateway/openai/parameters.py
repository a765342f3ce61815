"""parameters: which parameters of OpenAI's requests are accepted.

form of the answer (response_format, text, tool_choice, ...) ─► answer form of the message, see `forms.py`
sampling (temperature, max_tokens, ...) ─► ignored and named in a header, or passed on by ROBOCO_GATEWAY_OPENAI_PASS
no effect on an answer (user, metadata, ...) ─► accepted
any other, unless its value is neutral ─► 400 with its name: the answer would mean something else
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from roboco.gateway.openai.problems import wrong_parameter

IGNORED_HEADER: Final = "roboco-ignored"
_ANY: Final = object()
"""Any value: the parameter does not change an answer."""
_SAMPLING: Final = {
    **{name: name for name in ("temperature", "top_p", "seed", "frequency_penalty", "presence_penalty")},
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), "max_tokens"),
    **{name: name for name in ("reasoning_effort", "verbosity", "logit_bias", "top_k", "min_p", "repetition_penalty")},
}
"""By name: the parameter of a model call."""
_COMMON: Final[dict[str, object]] = {
    **dict.fromkeys(("metadata", "user", "safety_identifier", "service_tier", "prediction"), _ANY),
    **dict.fromkeys(("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"), _ANY),
    **dict.fromkeys(("tool_choice", "parallel_tool_calls", "response_format", "text", "reasoning"), _ANY),
    "top_logprobs": (0,),
}
CHAT: Final[dict[str, object]] = {
    **_COMMON,
    "store": _ANY,
    "n": (1,),
    "logprobs": (False,),
    "stop": ([], ""),
    "modalities": (["text"],),
}
"""Parameters of chat completions with the values that are accepted."""
RESPONSES: Final[dict[str, object]] = {
    **_COMMON,
    "store": (True,),
    "truncation": ("auto", "disabled"),
    "context_management": ([],),
}
"""Parameters of responses with the values that are accepted."""
_REMEDIES: Final = {
    "store": "leave it out: a response is a part of the history of a task, which is kept, as that of a chat is",
    "n": "send the request n times",
    "stop": "the answer of a team is not cut; cut the text in the client",
}
_CODE: Final = "unsupported_parameter"


def check_parameters(given: Mapping[str, Any], accepted: Mapping[str, object]) -> None:
    """Raise Problem `unsupported_parameter` for the first parameter that would change the meaning of the answer."""
    for name, value in given.items():
        values = _ANY if value is None or name in _SAMPLING else accepted.get(name, ())
        if values is _ANY or (isinstance(values, tuple) and value in values):
            continue
        remedy = _REMEDIES.get(name, "leave it out; the team decides it")
        raise wrong_parameter(name[:80], "this value is not supported, since it changes the answer", remedy, _CODE)


def sampling_of(given: Mapping[str, Any], passed: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the parameters of model calls that are passed on, and the names of those that are ignored."""
    flat = [(name, name, value) for name, value in given.items() if name in _SAMPLING]
    for outer, inner, name in (("reasoning", "effort", "reasoning_effort"), ("text", "verbosity", "verbosity")):
        if isinstance(nested := given.get(outer), dict):
            flat.append((f"{outer}.{inner}", name, nested.get(inner)))
    sampling, ignored = dict[str, Any](), list[str]()
    for shown, name, value in flat:
        if value is None:
            continue
        if _SAMPLING[name] in passed:
            sampling[_SAMPLING[name]] = value
        else:
            ignored.append(shown)
    return sampling, sorted(ignored)
