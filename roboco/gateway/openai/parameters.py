"""parameters: which parameters of OpenAI's requests are accepted.

The team decides on models, sampling and tools. A parameter that would change an answer, and that Roboco cannot honour,
is refused with its name, unless it has a neutral value. The setting ROBOCO_GATEWAY_OPENAI_IGNORE names parameters that
are ignored instead, for clients that always send them.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from roboco.gateway.openai.problems import wrong_parameter

_ANY: Final = object()
"""Any value: the parameter does not change an answer."""
_COMMON: Final[dict[str, object]] = {
    "metadata": _ANY,
    "user": _ANY,
    "safety_identifier": _ANY,
    "prompt_cache_key": _ANY,
    "prompt_cache_options": _ANY,
    "prompt_cache_retention": _ANY,
    "service_tier": ("auto", "default"),
    "temperature": (1,),
    "top_p": (1,),
    "top_logprobs": (0,),
    "parallel_tool_calls": (True,),
    "tool_choice": ("auto",),
}
CHAT: Final[dict[str, object]] = {
    **_COMMON,
    "n": (1,),
    "store": (False,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logprobs": (False,),
    "logit_bias": ({},),
    "stop": ([],),
    "modalities": (["text"],),
    "response_format": ({"type": "text"},),
}
"""Parameters of chat completions with the values that are accepted."""
RESPONSES: Final[dict[str, object]] = {
    **_COMMON,
    "store": (True,),
    "truncation": ("auto", "disabled"),
    "reasoning": ({}, {"effort": None, "summary": None}),
    "text": ({}, {"format": {"type": "text"}}, {"format": {"type": "text"}, "verbosity": "medium"}),
    "context_management": ([],),
}
"""Parameters of responses with the values that are accepted."""
_REMEDIES: Final = {
    "store": "responses are always stored, as the history of a task; use /chat/completions for answers without one",
    "response_format": "the team file sets the form of answers",
    "tool_choice": "the agents choose; only 'auto' is possible",
}


def check_parameters(given: Mapping[str, Any], accepted: Mapping[str, object], ignored: Collection[str]) -> None:
    """Raise Problem `unsupported_parameter` for the first parameter that would change the answer."""
    for name, value in given.items():
        if value is None or name in ignored:
            continue
        values = accepted.get(name, ())
        if values is _ANY or (isinstance(values, tuple) and value in values):
            continue
        remedy = _REMEDIES.get(name, "leave it out, or let ROBOCO_GATEWAY_OPENAI_IGNORE name it")
        raise wrong_parameter(name[:80], "this value is not supported, since a team decides it", remedy, _CODE)


_CODE: Final = "unsupported_parameter"
