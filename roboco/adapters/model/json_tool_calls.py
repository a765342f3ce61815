"""Tool calls for models without native tool calling: the model replies with one JSON object.

    {"text": "what it says", "calls": [{"tool": "add", "args": {"a": 1, "b": 2}}]}

The object's schema is sent as the response format. Servers with grammars then produce nothing else. Other servers
only see the instruction in the system message, so the parser tolerates text around the object.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from roboco.adapters.json_schema import mistake
from roboco.adapters.model.plain_messages import plain_turns
from roboco.adapters.model.strict_schema import Schema, is_strict, strict_schema
from roboco.adapters.model.tool_descriptions import tool_sheet
from roboco.domain.canonical_json import checked_json
from roboco.ports import Request, RequestedCall

MOST_CALLS = 8
"""Maximum number of calls in one reply."""
SHOWN = 2000
"""Maximum number of characters of an unreadable reply that are quoted to the model."""
_PLACES = 50
"""Maximum number of opening braces at which the parser searches for the reply's object."""

# Worded and ordered by trials with a model of 135M parameters: the tools first, the shape of the reply last.
_WISH = "Pick the tools that fit what the user wants, and answer with JSON only:"
_CALLS = '"calls": [{"tool": "the tool\'s name", "args": {"its": "arguments"}}]'
_SHAPE = f'{{"text": "what you say", {_CALLS}}}'
_SHAPE_OF_CALLS = f"{{{_CALLS}}}"


@dataclass(frozen=True)
class Answer:
    """A model's parsed text and calls; or only `mistake`, the reason why its reply cannot be used."""

    text: str = ""
    calls: tuple[RequestedCall, ...] = ()
    mistake: str = ""


def asked_in_json(request: Request) -> Request:
    """Return the request without native tools: the system message describes them and the JSON to call them."""
    none = "" if request.tool_choice == "required" else '\n"calls" is [] if no tool is needed.'
    instruction = f"You have tools:\n{tool_sheet(request.tools)}\n{_WISH}\n{_shape(request)}{none}"
    return replace(request, messages=plain_turns(request.messages, instruction), tools=())


def asked_plainly(request: Request) -> Request:
    """Return the request as a plain conversation without tools, for an agent that has no tools now."""
    return replace(request, messages=plain_turns(request.messages), tools=())


def asked_again(asked: Request, request: Request, said: str, wrong: str) -> Request:
    """Return the first request, extended by the model's reply and the mistake in it."""
    shown = said if len(said) <= SHOWN else f"{said[:SHOWN]} ..."
    shape = _shape(request)
    told = f"That answer cannot be used: {wrong}. Answer again with one JSON object and nothing else:\n{shape}"
    turns = ({"role": "assistant", "content": shown or "(nothing)"}, {"role": "user", "content": told})
    return replace(asked, messages=(*asked.messages, *turns))


def most_calls(request: Request) -> int:
    """Return how many calls the reply may hold.

    One if a call is required: a small model would go on with calls for ever.
    """
    return 1 if request.tool_choice == "required" else MOST_CALLS


def response_format(request: Request) -> dict[str, Any]:
    """Return the schema of the reply, as the chat completions protocol takes it.

    The text precedes the calls, for models that think as they write. If the schema of a tool uses more than strict
    providers accept (optional arguments, for instance), it is not declared strict.
    """
    calls = {
        "type": "array",
        "items": {"anyOf": [_call(tool["function"]) for tool in request.tools]},
        "minItems": int(request.tool_choice == "required"),
        "maxItems": most_calls(request),
    }
    schema = _closed(
        {"calls": calls} if request.tool_choice == "required" else {"text": {"type": "string"}, "calls": calls}
    )
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": is_strict(schema)}}


def read_answer(said: str, request: Request, cut_off: bool) -> Answer:
    """Return the parsed text and calls, or the mistake.

    Code fences and prose around the object are ignored. Equal calls count as one. `cut_off` says that the reply was
    truncated, so that the mistake names the cause.
    """
    found = _object(said)
    if found is None:
        return Answer(
            mistake="it was cut off before its end, say less" if cut_off else "it holds no JSON object 'calls'"
        )
    text, calls = found.get("text"), found.get("calls")
    if not isinstance(text, str | None):
        return Answer(mistake=f"'text' is no string (found {_short(text)})")
    if not isinstance(calls, list | None):
        return Answer(mistake=f"'calls' is no list (found {_short(calls)})")
    wrong = next(_mistakes(calls or [], request), "")
    made = dict.fromkeys(RequestedCall(call["tool"], _json(call.get("args", {}))) for call in calls or [] if not wrong)
    return Answer(mistake=wrong) if wrong else Answer(text or "", tuple(made))


def _shape(request: Request) -> str:
    return _SHAPE_OF_CALLS if request.tool_choice == "required" else _SHAPE


def _call(function: dict[str, Any]) -> Schema:
    name = {"type": "string", "enum": [function["name"]]}
    return _closed({"tool": name, "args": strict_schema(function.get("parameters") or {})})


def _closed(properties: dict[str, Schema]) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _object(said: str) -> dict[str, Any] | None:
    """Return the reply's object, or None if there is none.

    It is the first object of the text, or the last that has calls, for models that write a draft first.
    """
    found: dict[str, Any] | None = None
    decoder = json.JSONDecoder()
    place, first = said.find("{"), True
    for _ in range(_PLACES):
        if place < 0:
            break
        try:
            value, end = decoder.raw_decode(said, place)
            value = checked_json(value)
        except (ValueError, RecursionError):
            end = place + 1
        else:
            if "calls" in value or (first and "text" in value):
                found = value
        place, first = said.find("{", end), False
    return found


def _mistakes(calls: list[Any], request: Request) -> Iterator[str]:
    schemas = {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in request.tools}
    if not calls and request.tool_choice == "required":
        yield f"it calls no tool, but must call one of {', '.join(schemas)}"
    if len(calls) > (most := most_calls(request)):
        yield f"it has {len(calls)} calls, at most {most} are possible"
    for call in calls:
        if not isinstance(call, dict) or not isinstance(call.get("tool"), str):
            yield f"a call is no object with 'tool' and 'args' (found {_short(call)})"
        elif call["tool"] not in schemas:
            yield f"there is no tool {call['tool'][:64]!r}, only {', '.join(schemas)}"
        elif not isinstance(args := call.get("args", {}), dict):
            yield f"the args of {call['tool']} are no object (found {_short(args)})"
        elif wrong := mistake(schemas[call["tool"]], args):
            yield f"the args of {call['tool']} are wrong: {wrong}"


def _short(value: Any) -> str:
    return _json(value)[:100]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
