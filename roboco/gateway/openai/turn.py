"""turn: the contribution of a request to a task: a message or answers to open calls, after an earlier conversation.

    messages of a chat  ─┐
    input of a response ─┴─► entries ─► Turn: instructions, history, and prompt or answers

OpenAI's clients send the whole conversation again with each request, unless they name an earlier response. So the last
message of the user is the prompt, and all before it is history. If results of functions end the list, their calls name
the task that waits for them, and the rest is known to it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, Literal

from roboco.gateway.openai.files import InlineFile, inline_file
from roboco.gateway.openai.ids import split_call_id
from roboco.gateway.openai.problems import wrong_parameter

Role = Literal["user", "assistant"]
_FILES_ALONE: Final = "(files)"
"""The text of a message that has files alone."""
_INSTRUCTING: Final = ("system", "developer")
_DROPPED: Final = ("reasoning", "mcp_call", "mcp_list_tools", "mcp_approval_request")
"""Outputs that clients send back with the conversation, and that the texts around them stand for."""
_TEXT_TYPES: Final = ("text", "input_text", "output_text", "refusal", "summary_text")


@dataclass(frozen=True)
class Said:
    """A message."""

    role: Role
    text: str
    files: tuple[InlineFile, ...] = ()


@dataclass(frozen=True)
class Instructed:
    """Instructions of the client."""

    text: str


@dataclass(frozen=True)
class Called:
    """A call of a client's function."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Returned:
    """The result of a client's function."""

    call_id: str
    text: str


@dataclass(frozen=True)
class Decided:
    """A person's decision on a call."""

    call_id: str
    approve: bool
    reason: str
    args: dict[str, Any] | None = None
    """The arguments with which a person approves it, in place of those of the call."""


@dataclass(frozen=True)
class Resolved:
    """A person's resolution of a call with an unknown outcome, for which OpenAI's API has no form."""

    call_id: str
    happened: bool
    result: Any


@dataclass(frozen=True)
class Referred:
    """A reference to an item of an earlier response. The conversation continues after the last one."""

    item_id: str


Entry = Referred | Said | Instructed | Called | Returned | Decided
Answer = Returned | Decided | Resolved


@dataclass(frozen=True)
class Turn:
    """The contribution of a request to a task: `prompt`, or `answers` to the calls for which it waits."""

    prompt: str = ""
    answers: tuple[Answer, ...] = ()
    history: tuple[Said, ...] = ()
    """The conversation before the prompt."""
    instructions: str = ""
    files: tuple[InlineFile, ...] = ()
    """The files of the prompt, and of the messages of the user before it."""
    param: str = "input"
    """The parameter that holds the conversation, for errors."""

    @property
    def answered_task(self) -> str:
        """The task whose calls are answered, as their ids name it, or "". Raise Problem if they name several."""
        tasks = {split_call_id(answer.call_id)[1] for answer in self.answers}
        if len(tasks) > 1:
            raise wrong_parameter(self.param, "the results belong to calls of different responses")
        return next(iter(tasks), "")


def after_reference(entries: Iterable[Entry]) -> tuple[list[Entry], str | None]:
    """Return the instructions, the entries after the last reference, and its item; all entries if there is none.

    The conversation up to the item is known to the task that has it.
    """
    whole = list(entries)
    last = max((index for index, entry in enumerate(whole) if isinstance(entry, Referred)), default=-1)
    item = whole[last] if last >= 0 else None
    kept = [entry for index, entry in enumerate(whole) if index > last or isinstance(entry, Instructed)]
    return kept, item.item_id if isinstance(item, Referred) else None


def turn_of(entries: Iterable[Entry], param: str, continues: bool) -> Turn:
    """Return the contribution of these entries. `continues` says that the request names an earlier response.

    Raise Problem if they end with neither a message of the user nor answers, or if they cannot continue a task.
    """
    whole = list(entries)
    instructions = "\n\n".join(entry.text for entry in whole if isinstance(entry, Instructed))
    said = [entry for entry in whole if not isinstance(entry, Instructed)]
    answers = list(takewhile(lambda entry: isinstance(entry, Returned | Decided), reversed(said)))[::-1]
    before = said[: len(said) - len(answers)]
    if answers:
        given = tuple(answer for answer in answers if isinstance(answer, Returned | Decided))
        return Turn(answers=given, instructions=instructions, param=param)
    if continues:
        return Turn(_joined_message(before, param), instructions=instructions, files=_files(before), param=param)
    match before[-1:]:
        case [Said("user", text)] if text.strip():
            history = _history(before[:-1])
            return Turn(text, history=history, instructions=instructions, files=_files(before), param=param)
        case _:
            pass
    raise wrong_parameter(param, "must end with a message of the user or with results of functions")


def earlier_turn(entries: Iterable[Entry]) -> Turn:
    """Return the history, the files and the instructions of the entries before the first message of a conversation."""
    whole = list(entries)
    instructions = "\n\n".join(entry.text for entry in whole if isinstance(entry, Instructed))
    return Turn(history=_history(whole), instructions=instructions, files=_files(whole))


def _joined_message(entries: Sequence[Entry], param: str) -> str:
    texts = [entry.text for entry in entries if isinstance(entry, Said) and entry.role == "user"]
    if len(texts) < len(entries) or not "".join(texts).strip():
        raise wrong_parameter(
            param,
            "after an earlier response, only messages of the user or results of functions may follow",
            "leave out the items that the conversation holds already",
        )
    return "\n\n".join(texts)


def _files(entries: Sequence[Entry]) -> tuple[InlineFile, ...]:
    return tuple(file for entry in entries if isinstance(entry, Said) for file in entry.files)


def _history(entries: Sequence[Entry]) -> tuple[Said, ...]:
    """Return the conversation as messages. Calls and results of functions become text of the assistant."""
    found: list[Said] = []
    for entry in entries:
        match entry:
            case Said() if entry.text.strip():
                found.append(entry)
            case Called():
                found.append(Said("assistant", f"(called {entry.name} with {entry.arguments})"))
            case Returned():
                found.append(Said("assistant", f"(the result of call {split_call_id(entry.call_id)[0]}: {entry.text})"))
            case _:
                pass
    return tuple(found)


def text_of(content: Any, where: str) -> str:
    """Return the text of a content: a text, or a list of text parts. Raise Problem for images, files and audio."""
    match content:
        case None:
            return ""
        case str():
            return content
        case list():
            return "".join(_part_text(part, f"{where}.{index}") for index, part in enumerate(content))
        case _:
            pass
    raise wrong_parameter(where, "must be a text or a list of parts")


def _part_text(part: Any, where: str) -> str:
    if isinstance(part, dict) and part.get("type") in _TEXT_TYPES:
        text = part.get("refusal" if part["type"] == "refusal" else "text")
        if isinstance(text, str):
            return text
    raise wrong_parameter(
        where, "only text is supported here", "upload files to a task with the REST API, or put links into the text"
    )


def message_entry(role: Any, content: Any, where: str) -> Said | Instructed:
    """Return the entry of a message. Raise Problem for an unknown role."""
    parts = list(enumerate(content)) if role == "user" and isinstance(content, list) else []
    found = {index: inline_file(part, f"{where}.content.{index}") for index, part in parts if isinstance(part, dict)}
    files = tuple(file for file in found.values() if file is not None)
    words = [_part_text(part, f"{where}.content.{index}") for index, part in parts if found.get(index) is None]
    text = "".join(words) if files else text_of(content, f"{where}.content")
    if role in _INSTRUCTING:
        return Instructed(text)
    if role == "user":
        return Said("user", text or (_FILES_ALONE if files else ""), files)
    if role == "assistant":
        return Said("assistant", text)
    raise wrong_parameter(f"{where}.role", "must be system, developer, user, assistant or tool")


def chat_entries(messages: Sequence[dict[str, Any]]) -> Iterator[Entry]:
    """Yield the entries of chat messages, in order. Raise Problem for a message that is wrong or not text."""
    for index, message in enumerate(messages):
        where = f"messages.{index}"
        if message.get("role") == "tool":
            call_id = message.get("tool_call_id")
            if not isinstance(call_id, str):
                raise wrong_parameter(f"{where}.tool_call_id", "is missing")
            yield Returned(call_id, text_of(message.get("content"), f"{where}.content"))
            continue
        entry = message_entry(message.get("role"), message.get("content"), where)
        yield entry
        if isinstance(entry, Said) and entry.role == "assistant":
            yield from _calls(message.get("tool_calls"), where)


def _calls(calls: Any, where: str) -> Iterator[Called]:
    if not isinstance(calls, list | None):
        raise wrong_parameter(f"{where}.tool_calls", "must be a list")
    for index, call in enumerate(calls or ()):
        match call:
            case {"id": str(call_id), "function": {"name": str(name), "arguments": str(arguments)}}:
                yield Called(call_id, name, arguments)
            case _:
                raise wrong_parameter(f"{where}.tool_calls.{index}", "must have id, function.name and arguments")


def input_entries(given: str | Sequence[dict[str, Any]]) -> Iterator[Entry]:
    """Yield the entries of a response's input, in order. Raise Problem for an item that is wrong or not supported."""
    if isinstance(given, str):
        yield Said("user", given)
        return
    for index, item in enumerate(given):
        entry = input_entry(item, f"input.{index}")
        if entry is not None:
            yield entry


def input_entry(item: dict[str, Any], where: str) -> Entry | None:
    """Return the entry of an item, or None if the texts around it stand for it. Raise Problem for a wrong one."""
    match item:
        case {"type": "message", "role": role, "content": content}:
            return message_entry(role, content, where)
        case {"role": role, "content": content} if "type" not in item:
            return message_entry(role, content, where)
        case {"type": "item_reference", "id": str(item_id)}:
            return Referred(item_id)
        case {"type": "function_call", "call_id": str(call_id), "name": str(name), "arguments": str(arguments)}:
            return Called(call_id, name, arguments)
        case {"type": "function_call_output", "call_id": str(call_id), "output": output}:
            return Returned(call_id, text_of(output, f"{where}.output"))
        case {"type": "mcp_approval_response", "approval_request_id": str(request_id), "approve": bool(approve)}:
            return Decided(request_id, approve, str(item.get("reason") or ""))
        case {"type": kind} if kind in _DROPPED:
            return None
    raise wrong_parameter(where, f"items of type {str(item.get('type'))[:60]!r} with these fields are not supported")
