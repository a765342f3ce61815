"""forms: the parameters of a request: those of the form of its answer become the answer form of a message.

response_format, text.format      the type of the last agent's answer
tool_choice, parallel_tool_calls  the calls of the client's functions
instructions, system messages     text below the prompts of the team
sampling (temperature, ...)       ignored and named in a header, or passed on by ROBOCO_GATEWAY_OPENAI_PASS
no effect (user, metadata, ...)   accepted
any other, unless it is neutral   400 with its name: the answer would mean something else
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from fastapi import Response

from roboco.gateway.openai.bodies import ChatBody, ResponseBody
from roboco.gateway.openai.problems import wrong_parameter
from roboco.gateway.openai.tools import client_tools

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


_CHOICES: Final[dict[str, Literal["auto", "required", "none"]]] = {
    "auto": "auto",
    "none": "none",
    "required": "required",
    "any": "required",
}


@dataclass(frozen=True)
class Asked:
    """The demands of a request on its answer."""

    options: dict[str, Any] = field(default_factory=dict)
    """Options of the message: `client_tools` and `answer_form`."""
    ignored: tuple[str, ...] = ()
    """The names of the parameters that have no effect."""

    def with_form(self, instructions: str, continues: bool) -> dict[str, Any]:
        """Return the options of the message with these instructions.

        `continues` says that it is not the first one of its task: then it always has a form, which ends that before.
        """
        form = dict(self.options.get("answer_form", {})) | ({"instructions": instructions} if instructions else {})
        if continues:
            form.setdefault("calls", "auto" if "client_tools" in self.options else "none")
        return self.options | ({"answer_form": form} if form else {})


def asked_of(body: ChatBody | ResponseBody, passed: Sequence[str]) -> Asked:
    """Return the demands of a request. Raise Problem for a parameter that cannot be honoured.

    `passed` are the sampling parameters that reach the models.
    """
    given, chat = body.others, isinstance(body, ChatBody)
    check_parameters(given, CHAT if chat else RESPONSES)
    sampling, ignored = sampling_of(given, passed)
    calls, tools = _chosen(given.get("tool_choice"), body.tools or [])
    form: dict[str, Any] = {"sampling": sampling} if sampling else {}
    if (schema := _schema(given, chat)) is not None:
        form["schema"] = schema
    if calls != "auto":
        form["calls"] = calls
    if given.get("parallel_tool_calls") is False:
        form["one_call"] = True
    options: dict[str, Any] = {"client_tools": client_tools(tools, nested=chat)} if tools else {}
    return Asked(options | ({"answer_form": form} if form else {}), tuple(ignored))


def naming_ignored(asked: Asked, response: Response) -> Response:
    """Return the response with a header that names the ignored parameters."""
    if asked.ignored:
        response.headers[IGNORED_HEADER] = ", ".join(asked.ignored)
    return response


def _schema(given: Mapping[str, Any], chat: bool) -> dict[str, Any] | None:
    """Return the JSON Schema of the answer, or None for words."""
    text = given.get("text") or {}
    where = "response_format" if chat else "text.format"
    match given.get("response_format") if chat else text.get("format") if isinstance(text, dict) else text:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return {"type": "object"}
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}} if chat:
            return schema
        case {"type": "json_schema", "schema": dict(schema)} if not chat:
            return schema
    raise wrong_parameter(where, "must be of type 'text', 'json_object', or 'json_schema' with a schema")


def _chosen(choice: Any, tools: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """Return whether the answer must have a call, and the tools that it may call."""
    match choice:
        case None:
            calls, names = "auto", None
        case str() if choice in _CHOICES:
            calls, names = _CHOICES[choice], None
        case {"type": "function", "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            calls, names = "required", {name}
        case {
            "type": "allowed_tools",
            "allowed_tools": {"mode": ("auto" | "required") as mode, "tools": list(allowed)},
        } | {"type": "allowed_tools", "mode": ("auto" | "required") as mode, "tools": list(allowed)}:
            calls, names = mode, {_name(tool) for tool in allowed}
        case _:
            raise wrong_parameter("tool_choice", "must be 'auto', 'none', 'required' or the name of a function")
    chosen = [tool for tool in tools if names is None or _name(tool) in names]
    if calls == "required" and not chosen:
        raise wrong_parameter("tool_choice", "demands a call, and `tools` has no such function")
    return calls, [] if calls == "none" else chosen


def _name(tool: Any) -> str:
    """Return the name of a function, in the form of chat completions or of responses."""
    inner = tool.get("function", tool) if isinstance(tool, dict) else {}
    return str(inner.get("name")) if isinstance(inner, dict) else ""
