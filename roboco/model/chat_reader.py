"""chat_reader: one chunk of a stream of chat completions after the other, in every dialect that servers speak.

    chunk ─► error? ─► ModelError by the table of errors
      │
      ├─► usage, wherever it is
      └─► choices[0] ─► finish_reason, delta (or message) ─► text, reasoning, refusal, calls, and what must come back

Servers differ in nearly everything. The rules, with the servers that need them:

* A new index begins a call. So does, at an index that has one, a name with a new id, or after whole arguments (Ollama
  and Gemini's endpoint give all calls the index 0). A fragment with neither name nor id belongs to the last call, and
  so does a new id without a name while arguments are not whole (vLLM gives each fragment an id).
* Each entry of one list that has a name is a call.
* A name that arrives again is a repetition (MiniMax on NIM), unless name and addition together are a tool's name.
* Signs of a chat template around a tool's name do not count.
* Content may be a list of parts, of which some are reasoning (Mistral). Reasoning has three names.
* A reply that was not streamed has `message` in place of `delta`. After deltas, a message is their repetition.
* An unknown field of a message or call may be one that the provider wants back, such as a signature. It is kept.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from roboco.model.errors import ServerFailure
from roboco.model.reply_assembly import MAX_REPLY_CALLS, PartialCall, ReplyAssembly
from roboco.model.reported_usage import reported_usage

_REASONING_TEXTS = ("reasoning_content", "reasoning", "thinking", "reasoning_text", "thinking_content", "thought")
_REASONING_PARTS = frozenset({"thinking", "reasoning", "reasoning_text", "reasoning_content"})
_RETURNED_REASONING = ("reasoning_content", "reasoning")
"""Texts of reasoning that providers want back under the same name."""
_KNOWN_MESSAGE_FIELDS = frozenset(
    {
        *("role", "content", "tool_calls", "function_call", "refusal", "audio", "name", "index", "id", "type"),
        *_REASONING_TEXTS,
        *("annotations", "citations", "obfuscation", "token_ids"),
        *("channel", "executed_tools", "padding", "context", "logprobs", "finish_reason"),
    }
)
_MARKS = frozenset({"error", "errors", "base_resp", "x_groq", "message"})
"""Fields of chunks and choices that may hold an error, usage or a whole message."""
_FAILED_REASONS = frozenset({"insufficient_system_resource", "network_error", "abort", "aborted", "cancelled"})
"""Finish reasons of a server that could not go on: DeepSeek, Zhipu, vLLM."""
_ERROR_TEXTS = ("message", "detail", "error_message")
_KEEP_ALIVES = ("ping", "heartbeat", "keepalive", "keep-alive")
_TEMPLATE = re.compile(r"^\s*(?:functions|default_api)[.:]|:\d{1,4}\s*$|<\|.*", re.DOTALL)
"""Signs that Kimi, Gemini and gpt-oss write around the name of a tool, and that some servers leave there."""
_KNOWN_CALL_FIELDS = frozenset({"index", "id", "type", "function", "name", "arguments"})


class ChatReader:
    """Reads the chunks of one reply into an assembly."""

    def __init__(self, assembly: ReplyAssembly, tool_names: frozenset[str]) -> None:
        self._assembly = assembly
        self._tool_names = tool_names
        self._by_index: dict[int, PartialCall] = {}
        self._by_id: dict[str, PartialCall] = {}
        self._has_deltas = False

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
        delta = choice.get("delta")
        if isinstance(delta, dict) and _is_plain(chunk, choice, delta):
            self._has_deltas = True
            return assembly.add_text(delta["content"]), ""
        return self._add_any(chunk, choice)

    def _add_any(self, chunk: dict[str, Any], choice: dict[str, Any]) -> tuple[str, str]:
        assembly, delta, message = self._assembly, choice.get("delta"), choice.get("message")
        if (usage := reported_usage(chunk, choice)) is not None:
            assembly.add_usage(usage)
            assembly.may_end = assembly.has_output and not choice
        if (error := _error_in(chunk, choice)) is not None and not assembly.finished:
            raise ServerFailure.within_stream(error)
        if not choice:
            return "", ""
        assembly.finish(choice.get("finish_reason") or choice.get("finishReason"))
        if delta and isinstance(delta, dict):
            added = self._add_delta(delta)
            self._has_deltas = assembly.has_output
            return added
        if isinstance(message, dict) and not self._has_deltas:
            added = self._add_delta(message)
            assembly.may_end = assembly.has_output
            return added
        return (assembly.add_text(choice["text"]) if isinstance(choice.get("text"), str) else ""), ""

    def _add_delta(self, delta: dict[str, Any]) -> tuple[str, str]:
        text, thought, refusal = _split_content(delta.get("content"))
        if is_thought := _is_thought(delta.get("extra_content")):
            text, thought = "", text
        reasoning = thought or self._reasoning_text(delta)
        said = self._assembly.add_text(text)
        thought_of = self._assembly.add_reasoning(reasoning) if reasoning else ""
        if isinstance(further := delta.get("refusal"), str):
            refusal += further
        if refusal:
            self._assembly.add_refusal(refusal)
        if delta.get("tool_calls") or delta.get("function_call"):
            begun: list[PartialCall] = []
            for call in _calls_of(delta):
                self._add_call(call, begun)
        for name in delta:
            if name not in _KNOWN_MESSAGE_FIELDS and not (is_thought and name == "extra_content"):
                self._assembly.keep(self._assembly.provider, name, delta[name])
        return said, thought_of

    def _reasoning_text(self, delta: dict[str, Any]) -> str:
        for name in _REASONING_TEXTS:
            if isinstance(text := delta.get(name), str) and text:
                if name in _RETURNED_REASONING:
                    self._assembly.keep(self._assembly.provider, name, text)
                return text
        details = delta.get("reasoning_details")
        return "".join(_texts_of(details)) if isinstance(details, list) else ""

    def _add_call(self, fragment: dict[str, Any], begun: list[PartialCall]) -> None:
        """Add a fragment of a call. `begun` are the calls that have a fragment in the same list."""
        function = fragment.get("function")
        function = function if isinstance(function, dict) else fragment
        name = function.get("name") if isinstance(function.get("name"), str) else ""
        arguments = _arguments_text(function.get("arguments"))
        call_id = fragment.get("id") if isinstance(fragment.get("id"), str) else ""
        call = self._call_of(_index_of(fragment.get("index")), call_id or "", name or "", arguments, begun)
        if call is None:
            return
        begun.append(call)
        if name:
            call.name = self._joined_name(call.name, name)
        if arguments and not (call.has_arguments(arguments) and call.is_complete()):
            self._assembly.add_arguments(call, arguments)
        for key in fragment:
            if key not in _KNOWN_CALL_FIELDS:
                self._assembly.keep(call.provider, key, fragment[key])

    def _call_of(
        self, index: int | None, call_id: str, name: str, arguments: str, begun: list[PartialCall]
    ) -> PartialCall | None:
        """Return the call to which a fragment belongs. Begin it if it is a new one; return None beyond the limit."""
        calls = self._assembly.calls
        if index is None:
            current = self._by_id.get(call_id) or (calls[-1] if calls and not (name and call_id) else None)
        else:
            current = self._by_index.get(index) or (calls[-1] if calls and not (name or call_id) else None)
        again = bool(name) and current in begun
        if current is not None and not again and not self._begins_another(current, call_id, name, arguments):
            return current
        call = self._assembly.begin_call(call_id=call_id)
        if call is not None:
            self._by_id |= {call_id: call} if call_id else {}
            self._by_index |= {} if index is None else {index: call}
        return call

    def _begins_another(self, current: PartialCall, call_id: str, name: str, arguments: str) -> bool:
        """Return True if a fragment at the place of this call begins another one."""
        if call_id and current.id and call_id != current.id:
            return bool(name) or (bool(arguments) and (not current.name or current.is_complete()))
        if not name or not (arguments.strip() or name != current.name):
            return False
        if call_id and call_id == current.id and (not arguments.strip() or current.has_arguments(arguments)):
            return False  # the whole call again
        if current.is_complete():
            return True
        both_are_tools = {name, current.name} <= self._tool_names and current.name + name not in self._tool_names
        return both_are_tools and name != current.name

    def _joined_name(self, name: str, more: str) -> str:
        """Return the name with an addition, unless the addition is the whole name again."""
        joined = self._without_template(name + more)
        if joined in self._tool_names or more not in (*self._tool_names, name):
            return joined[:256]
        return more[:256]

    def _without_template(self, name: str) -> str:
        """Return the name without signs of a chat template, if that is the name of a tool."""
        meant = _TEMPLATE.sub("", name).strip()
        return meant if meant in self._tool_names else name


def _is_plain(chunk: dict[str, Any], choice: dict[str, Any], delta: dict[str, Any]) -> bool:
    """Return True if the chunk holds a piece of the text and nothing else, as nearly every one does."""
    return (
        len(delta) == 1
        and isinstance(delta.get("content"), str)
        and _MARKS.isdisjoint(chunk)
        and _MARKS.isdisjoint(choice)
        and not (choice.get("finish_reason") or choice.get("finishReason"))
        and not (chunk.get("usage") or choice.get("usage"))
    )


def _calls_of(delta: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the fragments of calls: as many as a reply may have calls, and one more, which truncates it."""
    calls = delta.get("tool_calls")
    for call in calls[: MAX_REPLY_CALLS + 1] if isinstance(calls, list) else [calls]:
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


def _split_content(content: Any) -> tuple[str, str, str]:
    """Return the text, the reasoning and the refusal of a content."""
    if content is None or isinstance(content, str):
        return content or "", "", ""
    texts: list[str] = []
    thoughts: list[str] = []
    refusals: list[str] = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            texts.append(part)
        elif not isinstance(part, dict):
            continue
        elif str(part.get("type")) in _REASONING_PARTS:
            thoughts += _texts_of(part.get("thinking") or part.get("reasoning") or part.get("text"))
        elif isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part.get("refusal"), str):
            refusals.append(part["refusal"])
    return "".join(texts), "".join(thoughts), "".join(refusals)


def _is_thought(extra_content: Any) -> bool:
    """Return True if this mark of Gemini's endpoint says that the content is a thought."""
    google = extra_content.get("google") if isinstance(extra_content, dict) else None
    return isinstance(google, dict) and google.get("thought") is True


def _texts_of(value: Any) -> Iterator[str]:
    """Yield the texts of a piece of reasoning: a text, or a list of texts or of objects that have one."""
    for item in value if isinstance(value, list) else [value]:
        text = item.get("text") or item.get("summary") if isinstance(item, dict) else item
        if isinstance(text, str):
            yield text


def _error_in(chunk: dict[str, Any], choice: dict[str, Any]) -> Any:
    """Return the error that the chunk holds, or None."""
    for place in (chunk, choice, choice.get("delta"), choice.get("message"), chunk.get("x_groq")):
        if isinstance(place, dict) and (error := place.get("error") or place.get("errors")):
            return place if isinstance(error, str) else error
    status = chunk.get("base_resp")
    if isinstance(status, dict) and status.get("status_code"):  # MiniMax
        return status
    if choice:
        return _error_of_reason(str(choice.get("finish_reason") or "").lower())
    if chunk.get("object") == "error" or chunk.get("type") == "error":
        return chunk
    if chunk.get("choices") is None and any(isinstance(chunk.get(name), str) for name in _ERROR_TEXTS):
        return chunk
    if "choices" in chunk or "usage" in chunk or chunk.get("type") in _KEEP_ALIVES:
        return None
    known = any(name in chunk for name in ("id", "model", "object", "x_groq", "prompt_filter_results", "created"))
    return None if known or not chunk else chunk


def _error_of_reason(reason: str) -> dict[str, str] | None:
    """Return the error that a finish reason is, or None: with these, a reply has ended before its end."""
    if "malformed_function_call" in reason or "unexpected_tool_call" in reason:  # Gemini
        return {"code": "malformed_function_call", "message": f"the reply ended with the reason {reason[:100]!r}"}
    if reason == "error":
        return {"message": "the model server ended the reply with an error that it does not name"}
    if reason in _FAILED_REASONS:
        return {"message": f"the model server ended the reply with the reason {reason!r}"}
    return None
