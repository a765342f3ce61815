"""OpenAI's models: the most that each writes and reads, and the parameters that it accepts.

The first pattern that matches counts. A name of no pattern is a model like gpt-4o-mini, so that tests with any
name meet its limits.
"""

import re
from dataclasses import dataclass

from roboco.lab.servers.chat_protocol import ChatRefusal as Refusal
from roboco.lab.servers.chat_protocol import Json, content_text
from tests.support.servers.dialects.openai_types import listed, unknown_parameters

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


@dataclass(frozen=True)
class Family:
    """Models that accept the same parameters."""

    pattern: str
    output: int
    """The maximum of output tokens."""
    context: int
    efforts: tuple[str, ...] = ()
    """The values of `reasoning_effort`; none for models that do not reason."""
    effort: str = "medium"
    """The effort of a request that names none."""
    without: tuple[str, ...] = ()
    """Parameters that it refuses."""
    tools_need_no_effort: bool = False
    """True if it refuses tools unless `reasoning_effort` is none."""


_O_SERIES = _EFFORTS[2:5]
_NOT_PARALLEL = ("parallel_tool_calls",)
FAMILIES = (
    Family(r"gpt-3\.5", 4_096, 16_385),
    Family(r"gpt-4-(turbo|1106|0125)", 4_096, 128_000),
    Family(r"gpt-4(-0613)?$", 8_192, 8_192),
    Family(r"gpt-4o-2024-05-13", 4_096, 128_000),
    Family(r"gpt-4\.1", 32_768, 1_047_576),
    Family(
        r"o1-mini", 65_536, 128_000, _O_SERIES, without=(*_NOT_PARALLEL, "tools", "response_format", "reasoning_effort")
    ),
    Family(r"o[134]", 100_000, 200_000, _O_SERIES, without=_NOT_PARALLEL),
    Family(r"gpt-5[0-9.]*-chat", 16_384, 128_000),
    Family(r"gpt-5\.1", 128_000, 400_000, ("none", *_O_SERIES), "none"),
    Family(r"gpt-5\.[23]", 128_000, 400_000, ("none", *_EFFORTS[2:6]), "none"),
    Family(r"gpt-5\.4", 128_000, 1_050_000, ("none", *_EFFORTS[2:6]), "none", tools_need_no_effort=True),
    Family(r"gpt-5\.", 128_000, 1_050_000, ("none", *_EFFORTS[2:]), tools_need_no_effort=True),
    Family(r"gpt-5", 128_000, 400_000, _EFFORTS[1:5]),
    Family(r"gpt-6", 128_000, 1_050_000, _EFFORTS[2:], tools_need_no_effort=True),
    Family(r"", 16_384, 128_000),
)
_SAMPLING = {"temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0, "n": 1}
"""The only values that a reasoning model accepts."""
_UNSUPPORTED = ("logprobs", "top_logprobs", "logit_bias", "stop", "prediction")
_ONLY_REASONING = ("reasoning_effort",)
CHARS_PER_TOKEN = 4


def family_of(model: str) -> Family:
    """Return the family of a model, also of one in a router's notation like openai/o3."""
    name = model.rpartition("/")[2]
    return next(family for family in FAMILIES if re.match(family.pattern, name))


def check_unknown(body: Json) -> None:
    """Raise Refusal for parameters that OpenAI does not know, in the words of the model's family."""
    family = family_of(str(body.get("model")))
    unknown = unknown_parameters(body)
    if not family.efforts:
        unknown += [name for name in _ONLY_REASONING if body.get(name) is not None]
    if unknown and family.efforts:
        raise Refusal(f"Unknown parameter: '{unknown[0]}'.", param=unknown[0], code="unknown_parameter")
    if unknown:
        plural = "s" if len(unknown) > 1 else ""
        raise Refusal(f"Unrecognized request argument{plural} supplied: {', '.join(unknown)}")


def check_parameters(body: Json) -> None:
    """Raise Refusal for a parameter that this model does not accept."""
    family = family_of(body["model"])
    for name in family.without:
        if name in body:
            _unsupported(name)
    if family.efforts:
        _check_reasoning(body, family)
    elif body.get("verbosity") not in (None, "medium"):
        _unsupported_value("verbosity", body["verbosity"], ("medium",))
    _check_output(body, family)


def check_context(body: Json, window: int | None = None) -> None:
    """Raise Refusal if the messages are longer than the model's context."""
    window = window or family_of(body["model"]).context
    tokens = sum(len(content_text(message)) for message in body["messages"]) // CHARS_PER_TOKEN
    if tokens > window:
        message = (
            f"This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} "
            "tokens. Please reduce the length of the messages."
        )
        raise Refusal(message, param="messages", code="context_length_exceeded")


def _check_reasoning(body: Json, family: Family) -> None:
    if body.get("max_tokens") is not None:
        _unsupported("max_tokens", " Use 'max_completion_tokens' instead.")
    given = body.get("reasoning_effort")
    if given is not None and given not in family.efforts:
        _unsupported_value("reasoning_effort", given, family.efforts)
    effort = given or family.effort
    if family.tools_need_no_effort and body.get("tools") and effort != "none":
        message = (
            f"Function tools with reasoning_effort are not supported for {body['model']} in /v1/chat/completions. "
            "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
        )
        raise Refusal(message, param="reasoning_effort")
    if effort != "none":
        _check_sampling(body)


def _check_sampling(body: Json) -> None:
    for name, only in _SAMPLING.items():
        value = body.get(name)
        if value is None or value == only:
            continue
        if name != "temperature":
            _unsupported(name)
        message = (
            f"Unsupported value: '{name}' does not support {value} with this model. "
            f"Only the default ({only}) value is supported."
        )
        raise Refusal(message, param=name, code="unsupported_value")
    for name in _UNSUPPORTED:
        if body.get(name):
            _unsupported(name)


def _check_output(body: Json, family: Family) -> None:
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        message = "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
        raise Refusal(message, param="max_tokens", code="invalid_parameter_combination")
    for name in ("max_tokens", "max_completion_tokens"):
        given = body.get(name)
        if given is not None and given > family.output:
            message = (
                f"{name} is too large: {given}. This model supports at most {family.output} completion tokens, "
                f"whereas you provided {given}."
            )
            raise Refusal(message, param=name, code="invalid_value")


def _unsupported(name: str, remedy: str = "") -> None:
    message = f"Unsupported parameter: '{name}' is not supported with this model.{remedy}"
    raise Refusal(message, param=name, code="unsupported_parameter")


def _unsupported_value(name: str, given: object, supported: tuple[str, ...]) -> None:
    message = (
        f"Unsupported value: '{name}' does not support '{given}' with this model. "
        f"Supported values are: {listed(supported)}."
    )
    raise Refusal(message, param=name, code="unsupported_value")
