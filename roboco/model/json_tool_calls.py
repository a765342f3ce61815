"""JSON tool calls, for models without native ones. The model answers with one JSON object.

    {"text": "what it says", "calls": [{"tool": "add", "args": {"a": 1, "b": 2}}]}

The request carries the object's schema as the response format, so that servers with grammars generate nothing else.
Other servers ignore it: their models read the instruction alone, and the parser passes over fences and prose.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from roboco.domain.canonical_json import validated_json, well_formed
from roboco.model.plain_messages import plain_messages
from roboco.model.strict_schema import JsonSchema, is_strict, strict_schema
from roboco.model.tool_descriptions import describe_tools
from roboco.ports.model import Request, RequestedCall
from roboco.schemas.json_schema import value_error

MAX_CALLS = 8
"""Calls in one answer."""
MAX_QUOTED_CHARS = 2000
"""Characters of an unreadable answer in the reprompt."""
_MAX_BRACES = 50
"""Braces at which the parser tries to read the answer's object."""

# Worded and ordered by trials with a model of 135M parameters: the tools first, the shape of the reply last.
_INSTRUCTION = "Pick the tools that fit what the user wants, and answer with JSON only:"
_CALLS_EXAMPLE = '"calls": [{"tool": "the tool\'s name", "args": {"its": "arguments"}}]'
_REPLY_EXAMPLE = f'{{"text": "what you say", {_CALLS_EXAMPLE}}}'
_CALLS_ONLY_EXAMPLE = f"{{{_CALLS_EXAMPLE}}}"


NO_WORDS = "it wrote tool calls as text, but has no tools in this turn"
_PARTIAL_TEXT = re.compile(r'\s*\{\s*"text"\s*:\s*"((?:[^"\\]|\\.)*)\Z', re.DOTALL)
"""An answer that was cut off within its text."""
_JSON_BEGINS = re.compile(
    r"""(?:`{3}[ \t]{0,4}\w{0,16}\s{0,4})?(?:\{|\[\s{0,8}(?:[\[{"']|\Z))|`{3}[ \t]{0,4}(?:json)?\s*\Z"""
)
"""The beginning of an object, or of a list of objects, lists or strings, with its fence: not a footnote such as [1]."""


@dataclass(frozen=True)
class JsonReply:
    """The words and tool calls of a model's answer."""

    text: str = ""
    calls: tuple[RequestedCall, ...] = ()
    mistake: str = ""
    """Why the answer cannot be read; "" if it can."""
    cut_off: bool = False
    """True if the text is incomplete."""

    @property
    def finish_reason(self) -> str:
        """The reason why the answer ended, in the words of chat completions, or "malformed"."""
        if self.mistake:
            return "malformed"
        if self.cut_off:
            return "length"
        return "tool_calls" if self.calls else "stop"


def json_request(request: Request) -> Request:
    """Return the request without native tools. The system message describes them and the form of a call."""
    none = "" if request.tool_choice == "required" else '\n"calls" is [] if no tool is needed.'
    instruction = f"You have tools:\n{describe_tools(request.tools)}\n{_INSTRUCTION}\n{_reply_example(request)}{none}"
    return replace(request, messages=plain_messages(request.messages, instruction), tools=())


def plain_request(request: Request) -> Request:
    """Return the request of an agent without tools in this turn: a plain conversation, even after tool calls."""
    return replace(request, messages=plain_messages(request.messages), tools=())


def correction_request(first_request: Request, request: Request, reply: str, problem: str) -> Request:
    """Return the first request with the model's `reply` and the `problem` in it appended."""
    quoted = reply if len(reply) <= MAX_QUOTED_CHARS else f"{reply[:MAX_QUOTED_CHARS]} ..."
    shape = _reply_example(request)
    correction = f"That answer cannot be used: {problem}. Answer again with one JSON object and nothing else:\n{shape}"
    messages = ({"role": "assistant", "content": quoted or "(nothing)"}, {"role": "user", "content": correction})
    return replace(first_request, messages=(*first_request.messages, *messages))


def words_request(plain: Request) -> Request:
    """Return the plain request with a demand for words, after an answer that was tool calls alone."""
    demand = "You have no tools now. Answer in plain words, without JSON."
    return replace(plain, messages=plain_messages((*plain.messages, {"role": "user", "content": demand})))


def fallback(reply: str, request: Request, answer: JsonReply, cut_off: bool) -> JsonReply:
    """Return the usable part of an answer that cannot be read after all reprompts. JSON never becomes text.

    Plain words are an answer, and so is a text that was cut off, unless a call is required. Else the words before the
    JSON are the text, and the mistake remains.
    """
    optional = request.tool_choice != "required"
    json_begins = _JSON_BEGINS.search(reply)
    if json_begins is None and reply.strip():
        return JsonReply(reply, cut_off=cut_off) if optional else replace(answer, text=reply)
    if (begun := _partial_text(reply)) and cut_off:
        return JsonReply(begun, cut_off=True) if optional else replace(answer, text=begun)
    found = _find_object(reply) or {}
    text = found.get("text")
    before = reply[: json_begins.start()].strip() if json_begins else ""
    return replace(answer, text=text if isinstance(text, str) and text else before)


def _partial_text(said: str) -> str:
    """Return the text of an answer that was cut off within it, as far as it goes; "" if there is none."""
    begun = _PARTIAL_TEXT.match(said)
    for dropped in range(12 if begun else 0):  # the end may be half of an escape sequence, such as \ud83d\u
        part = said[begun.start(1) : len(said) - dropped] if begun else ""
        try:
            text = json.loads(f'"{part}"')
        except ValueError:
            continue
        return well_formed(text) if isinstance(text, str) else ""
    return ""


def max_calls(request: Request) -> int:
    """Return the most calls of an answer. It is one where a call is required: a small model repeats calls for ever."""
    return 1 if request.tool_choice == "required" else MAX_CALLS


def response_format(request: Request) -> dict[str, Any]:
    """Return the schema of the answer as a response format of chat completions.

    The text precedes the calls, for models that think as they write. If a tool's schema has more than strict providers
    support, such as optional arguments, the schema is not declared strict.
    """
    calls = {
        "type": "array",
        "items": {"anyOf": [_call_schema(tool["function"]) for tool in request.tools]},
        "minItems": int(request.tool_choice == "required"),
        "maxItems": max_calls(request),
    }
    schema = _closed_object(
        {"calls": calls} if request.tool_choice == "required" else {"text": {"type": "string"}, "calls": calls}
    )
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": is_strict(schema)}}


def parse_reply(reply: str, request: Request, cut_off: bool) -> JsonReply:
    """Return the text and calls of the `reply`, or its mistake.

    Fences and prose around the object are ignored, and equal calls are merged.
    """
    parsed = _find_object(reply)
    if parsed is None:
        return JsonReply(
            mistake="it was cut off before its end, say less" if cut_off else "it holds no JSON object 'calls'"
        )
    text, calls = parsed.get("text"), parsed.get("calls")
    if not isinstance(text, str | None):
        return JsonReply(mistake=f"'text' is no string (found {_excerpt(text)})")
    if not isinstance(calls, list | None):
        return JsonReply(mistake=f"'calls' is no list (found {_excerpt(calls)})")
    problem = next(_find_mistakes(calls or [], request), "")
    made = dict.fromkeys(
        RequestedCall(call["tool"], _dump_json(call.get("args", {}))) for call in calls or [] if not problem
    )
    return JsonReply(mistake=problem) if problem else JsonReply(text or "", tuple(made))


def _reply_example(request: Request) -> str:
    return _CALLS_ONLY_EXAMPLE if request.tool_choice == "required" else _REPLY_EXAMPLE


def _call_schema(function: dict[str, Any]) -> JsonSchema:
    name = {"type": "string", "enum": [function["name"]]}
    return _closed_object({"tool": name, "args": strict_schema(function.get("parameters") or {})})


def _closed_object(properties: dict[str, JsonSchema]) -> JsonSchema:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _find_object(text: str) -> dict[str, Any] | None:
    """Return the answer's object: the first of the text, or the last one with calls, for models that draft first."""
    found: dict[str, Any] | None = None
    decoder = json.JSONDecoder()
    position, first = text.find("{"), True
    for _ in range(_MAX_BRACES):
        if position < 0:
            break
        try:
            value, end = decoder.raw_decode(text, position)
            value = validated_json(value)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            if "calls" in value or (first and "text" in value):
                found = value
        position, first = text.find("{", end), False
    return found


def _find_mistakes(calls: list[Any], request: Request) -> Iterator[str]:
    schemas = {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in request.tools}
    if not calls and request.tool_choice == "required":
        yield f"it calls no tool, but must call one of {', '.join(schemas)}"
    if len(calls) > (most := max_calls(request)):
        yield f"it has {len(calls)} calls, at most {most} are possible"
    for call in calls:
        if not isinstance(call, dict) or not isinstance(call.get("tool"), str):
            yield f"a call is no object with 'tool' and 'args' (found {_excerpt(call)})"
        elif call["tool"] not in schemas:
            yield f"there is no tool {call['tool'][:64]!r}, only {', '.join(schemas)}"
        elif not isinstance(args := call.get("args", {}), dict):
            yield f"the args of {call['tool']} are no object (found {_excerpt(args)})"
        elif wrong := value_error(schemas[call["tool"]], args):
            yield f"the args of {call['tool']} are wrong: {wrong}"


def _excerpt(value: Any) -> str:
    return _dump_json(value)[:100]


def _dump_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
