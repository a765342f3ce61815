"""forms: the form that a request demands of its answer, as the answer form of a message.

response_format, text.format      the type of the last agent's answer
tool_choice, parallel_tool_calls  the calls of the client's functions
instructions, system messages     text below the prompts of the team
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from fastapi import Response

from roboco.gateway.openai.bodies import ChatBody, ResponseBody
from roboco.gateway.openai.parameters import CHAT, IGNORED_HEADER, RESPONSES, check_parameters, sampling_of
from roboco.gateway.openai.problems import wrong_parameter
from roboco.gateway.openai.tools import client_tools

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
