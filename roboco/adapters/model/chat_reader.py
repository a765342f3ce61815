"""chat_reader: one chunk of a stream of chat completions after the other, in every dialect that servers speak.

    chunk ─► error? ─► ModelError by the table of errors
      │
      ├─► usage, wherever it is
      └─► choices[0] ─► finish_reason, delta (or message) ─► text, reasoning, refusal, calls, and what must come back

Servers differ in nearly everything. The rules, with the servers that need them:

* A new index begins a call. So does, at an index that has one, a new id, or a name after whole arguments (Ollama and
  Gemini's endpoint give all calls the index 0). A fragment with neither name nor id belongs to the last call.
* A name that arrives again is a repetition (MiniMax on NIM), unless name and addition together are a tool's name.
* Content may be a list of parts, of which some are reasoning (Mistral). Reasoning has three names.
* A reply that was not streamed has `message` in place of `delta`.
* An unknown field of a message or call may be one that the provider wants back, such as a signature. It is kept.
"""

import json
from collections.abc import Iterator
from typing import Any

from roboco.adapters.model.errors import ServerFailure
from roboco.adapters.model.reply_assembly import PartialCall, ReplyAssembly
from roboco.adapters.model.reported_usage import reported_usage

_REASONING_TEXTS = ("reasoning_content", "reasoning", "thinking")
_RETURNED_REASONING = ("reasoning_content", "reasoning")
"""Texts of reasoning that providers want back under the same name."""
_KNOWN_MESSAGE_FIELDS = frozenset(
    {
        *("role", "content", "tool_calls", "function_call", "refusal", "audio", "name", "index", "id", "type"),
        *("reasoning_content", "reasoning", "thinking", "annotations", "citations", "obfuscation", "token_ids"),
        *("channel", "executed_tools", "padding", "context", "logprobs", "finish_reason"),
    }
)
_KNOWN_CALL_FIELDS = frozenset({"index", "id", "type", "function", "name", "arguments"})


class ChatReader:
    """Reads the chunks of one reply into an assembly."""

    def __init__(self, assembly: ReplyAssembly, tool_names: frozenset[str]) -> None:
        self._assembly = assembly
        self._tool_names = tool_names
        self._by_index: dict[int, PartialCall] = {}
        self._by_id: dict[str, PartialCall] = {}

    def add_chunk(self, chunk: Any) -> tuple[str, str]:
        """Add a chunk, and return its text and its reasoning.

        Raise ServerFailure if it is an error, or no chunk.
        """
        assembly = self._assembly
        assembly.count_chunk()
        if not isinstance(chunk, dict):
            raise ServerFailure.within_stream(chunk)
        assembly.set_model(chunk.get("model"))
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        if (usage := reported_usage(chunk, choice)) is not None:
            assembly.usage = usage
        if (error := _error_in(chunk, choice)) is not None and not assembly.finished:
            raise ServerFailure.within_stream(error)
        if not choice:
            return "", ""
        assembly.finish(choice.get("finish_reason"))
        delta = choice.get("delta") or choice.get("message")
        if isinstance(delta, dict):
            return self._add_delta(delta)
        return (assembly.add_text(choice["text"]) if isinstance(choice.get("text"), str) else ""), ""

    def _add_delta(self, delta: dict[str, Any]) -> tuple[str, str]:
        text, thought = _split_content(delta.get("content"))
        reasoning = "".join(thought) or self._reasoning_text(delta)
        said = self._assembly.add_text(text)
        thought_of = self._assembly.add_reasoning(reasoning) if reasoning else ""
        if isinstance(refusal := delta.get("refusal"), str) and refusal:
            self._assembly.add_refusal(refusal)
        for call in _calls_of(delta):
            self._add_call(call)
        for name in delta.keys() - _KNOWN_MESSAGE_FIELDS:
            merge_field(self._assembly.provider, name, delta[name])
        return said, thought_of

    def _reasoning_text(self, delta: dict[str, Any]) -> str:
        for name in _REASONING_TEXTS:
            if isinstance(text := delta.get(name), str) and text:
                if name in _RETURNED_REASONING:
                    merge_field(self._assembly.provider, name, text)
                return text
        details = delta.get("reasoning_details")
        return "".join(_texts_of(details)) if isinstance(details, list) else ""

    def _add_call(self, fragment: dict[str, Any]) -> None:
        function = fragment.get("function")
        function = function if isinstance(function, dict) else fragment
        name = function.get("name") if isinstance(function.get("name"), str) else ""
        arguments = _arguments_text(function.get("arguments"))
        call_id = fragment.get("id") if isinstance(fragment.get("id"), str) else ""
        call = self._call_of(_index_of(fragment.get("index")), call_id or "", name or "", arguments)
        if call is None:
            return
        if name:
            call.name = self._joined_name(call.name, name)
        if arguments and not (call.is_complete() and call.arguments.getvalue() == arguments):
            self._assembly.add_arguments(call, arguments)
        for key in fragment.keys() - _KNOWN_CALL_FIELDS:
            merge_field(call.provider, key, fragment[key])

    def _call_of(self, index: int | None, call_id: str, name: str, arguments: str) -> PartialCall | None:
        """Return the call to which a fragment belongs. Begin it if it is a new one; return None beyond the limit."""
        calls = self._assembly.calls
        if index is None:
            current = self._by_id.get(call_id) if call_id else calls[-1] if calls else None
        else:
            current = self._by_index.get(index) or (calls[-1] if calls and not (name or call_id) else None)
        if current is not None and not self._begins_another(current, call_id, name, arguments):
            return current
        begun = self._assembly.begin_call(call_id=call_id)
        if begun is not None:
            self._by_id |= {call_id: begun} if call_id else {}
            self._by_index |= {} if index is None else {index: begun}
        return begun

    def _begins_another(self, current: PartialCall, call_id: str, name: str, arguments: str) -> bool:
        """Return True if a fragment at the place of this call begins another one."""
        if call_id and current.id and call_id != current.id:
            return True
        if not name:
            return False
        if call_id and call_id == current.id and arguments in ("", current.arguments.getvalue()):
            return False  # the whole call again
        if current.is_complete():
            return True
        both_are_tools = {name, current.name} <= self._tool_names and current.name + name not in self._tool_names
        return both_are_tools and name != current.name

    def _joined_name(self, name: str, more: str) -> str:
        """Return the name with an addition, unless the addition is the whole name again."""
        joined = name + more
        if joined in self._tool_names or more not in (*self._tool_names, name):
            return joined[:256]
        return more[:256]


def merge_field(fields: dict[str, Any], name: str, value: Any) -> None:
    """Add a further piece of a field: texts and lists are continued, objects are joined, anything else is replaced."""
    before = fields.get(name)
    if value is None:
        return
    if isinstance(before, str) and isinstance(value, str):
        fields[name] = before + value
    elif isinstance(before, list) and isinstance(value, list):
        for item in value:
            _merge_item(before, item)
    elif isinstance(before, dict) and isinstance(value, dict):
        for key in value:
            merge_field(before, key, value[key])
    elif isinstance(value, list):
        fields[name] = []
        merge_field(fields, name, value)
    else:
        fields[name] = dict(value) if isinstance(value, dict) else value


def _merge_item(items: list[Any], item: Any) -> None:
    """Continue the last item of a list if this one is a further piece of it, as in OpenRouter's reasoning_details."""
    last = items[-1] if items else None
    same = (
        isinstance(last, dict)
        and isinstance(item, dict)
        and item.get("type") == last.get("type") == "reasoning.text"
        and item.get("index") == last.get("index")
    )
    if not same or not isinstance(last, dict):
        items.append(dict(item) if isinstance(item, dict) else item)
        return
    for key, value in item.items():
        if key == "text":
            merge_field(last, key, value)
        elif value is not None:
            last[key] = value


def _calls_of(delta: dict[str, Any]) -> Iterator[dict[str, Any]]:
    calls = delta.get("tool_calls")
    for call in calls if isinstance(calls, list) else [calls]:
        if isinstance(call, dict):
            yield call
    if isinstance(legacy := delta.get("function_call"), dict):
        yield {"index": 0, "function": legacy}


def _index_of(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) > 1e9:
        return None
    return int(value)


def _arguments_text(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def _split_content(content: Any) -> tuple[str, list[str]]:
    """Return the text of a content, and the texts of its reasoning."""
    if content is None or isinstance(content, str):
        return content or "", []
    texts: list[str] = []
    thoughts: list[str] = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and str(part.get("type")) in ("thinking", "reasoning"):
            thoughts += _texts_of(part.get("thinking") or part.get("reasoning") or part.get("text"))
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
    return "".join(texts), thoughts


def _texts_of(value: Any) -> Iterator[str]:
    """Yield the texts of a piece of reasoning: a text, or a list of texts or of objects that have one."""
    for item in value if isinstance(value, list) else [value]:
        text = item.get("text") or item.get("summary") if isinstance(item, dict) else item
        if isinstance(text, str):
            yield text


def _error_in(chunk: dict[str, Any], choice: dict[str, Any]) -> Any:
    """Return the error that the chunk holds, or None."""
    delta = choice.get("delta")
    for place in (chunk, choice, delta if isinstance(delta, dict) else {}):
        if place.get("error"):
            return place["error"]
    if choice and str(choice.get("finish_reason")).lower() == "error":
        return {"message": "the model server ended the reply with an error that it does not name"}
    if "choices" in chunk or "usage" in chunk:
        return None
    if chunk.get("object") == "error" or chunk.get("type") == "error":
        return chunk
    known = any(name in chunk for name in ("id", "model", "object", "x_groq", "prompt_filter_results", "created"))
    return None if known or not chunk else chunk
