"""contexts: bring a message to the task of its context. Nothing is stored for it: ids derive from ids.

    a2a_CONTEXT    the task of the first message           no contextId ─► new-DIGEST of the message's id
    a2a_CONTEXT_2  the next one: a fork of the one before, once that has ended
    a2a-DIGEST     the item of a message in a task: the same message again has the same one, and counts once

A message for a task that is open goes to that task. Data with a `callId` answer its calls.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from a2a.types import Message, UnsupportedOperationError
from google.protobuf.json_format import MessageToDict

from roboco.client.task import Task
from roboco.domain.canonical_json import canonical_json, sha256
from roboco.domain.history.step import TaskStep
from roboco.errors import AlreadyEnded
from roboco.gateway.answers.chats import Chat, chat_of_task, fork_ended, grown, send_to_task, unless_taken
from roboco.gateway.openai import accepting
from roboco.gateway.openai.accepting import AcceptedTurn, TurnRequest
from roboco.gateway.openai.ids import shown_task_id
from roboco.gateway.openai.repetition import Repetition
from roboco.gateway.openai.response_stream import ResponseStart
from roboco.gateway.openai.turn import Answer, Decided, Resolved, Returned, Turn
from roboco.gateway.problem import Problem, invalid

_ITEM: Final = "a2a-"
_FIRST: Final = "a2a-first-"
"""The beginning of the item of a message with which a task begins."""
_TASK: Final = re.compile(r"a2a_([A-Za-z0-9][A-Za-z0-9-]{0,47})(?:_[1-9][0-9]{0,3})?")


@dataclass(frozen=True)
class MessageId(Repetition):
    """The identity of a message."""

    def item_id(self, task_id: str, position: int) -> str:
        """Return the id of the item of the message."""
        return f"{_ITEM}{self.digest[:32]}"


@dataclass(frozen=True)
class MessageRequest(TurnRequest):
    """A message. `if_busy` says what becomes of the current step of its task; None if the team says so."""

    if_busy: Any = None
    check: Callable[[Task], None] | None = None
    """It raises if the message must not go to this task, or to the next one after it. Nothing is stored before."""


def context_of(task_id: str) -> str | None:
    """Return the context of a task, as its caller names it, or None if it is no task of A2A."""
    match = _TASK.fullmatch(task_id)
    return None if match is None else match[1]


def first_task_of(context_id: str) -> str:
    """Return the id of the first task of a context. Raise Problem if the id of the context is not allowed."""
    if context_of(task_id := f"a2a_{context_id}") != context_id:
        raise invalid("contextId must have 1 to 48 letters, digits and '-'", "leave it out to begin a new context")
    return task_id


def own_begin(steps: list[TaskStep]) -> int:
    """Return the position of the message with which the task began: a fork has the steps before it, too."""
    return max((step.seq for step in steps if str(step.metadata.get("item_id", "")).startswith(_FIRST)), default=0)


async def accept(request: MessageRequest, message: Message, found: Task | None) -> AcceptedTurn:
    """Bring the message to `found`, the task that it names, or to that of its context."""
    answers = tuple(_answers(message))
    turn = Turn(answers=answers, param="parts") if answers else Turn(_text(message), param="parts")
    if found is None and answers:
        raise invalid("an answer to a call names its task in taskId")
    context_id = context_of(shown_task_id(request.caller, found.task_id)) if found else message.context_id
    if message.context_id not in ("", context_id):
        raise invalid("contextId is not that of the task")
    named = [request.caller.tenant, request.caller.by, request.team, message.context_id and context_id]
    identity = canonical_json([*named, message.message_id])
    repetition = MessageId(request.caller, sha256(identity), identity, 0, 0.0)
    request = replace(request, turn=turn, repetition=repetition)
    if found is None:
        return await _accept_in_context(request, context_id or f"new-{repetition.digest[:32]}")
    await _check(request, found)
    if answers:
        return await accepting.accept_answers(request, shown_task_id(request.caller, found.task_id))
    try:
        return await _send(request, found)
    except AlreadyEnded:
        raise UnsupportedOperationError("the task has ended: send the message with the contextId alone") from None


async def _accept_in_context(request: MessageRequest, context_id: str) -> AcceptedTurn:
    """Bring the message to the newest task of the context. If another one takes the next task, it follows that."""
    chat = await chat_of_task(request.gateway, request.caller, request.team, first_task_of(context_id))
    while (accepted := await _accept_in_chat(request, chat)) is None:
        chat = await grown(chat)
    return accepted


async def _accept_in_chat(request: MessageRequest, chat: Chat) -> AcceptedTurn | None:
    """Return the turn, or None if another message begins the next task of the context at this moment."""
    if not chat.tasks:
        options = request.task_options | {"item_id": _first_item(request)}
        return await unless_taken(accepting.accept_new(replace(request, task_options=options), chat.first))
    task = await request.gateway.task(request.caller, chat.newest)
    await _check(request, task)
    try:
        return await _send(request, task)
    except AlreadyEnded:
        return await unless_taken(fork_ended(request, task, chat, _first_item(request)))


async def _send(request: MessageRequest, task: Task) -> AcceptedTurn:
    """Send the message to the task, or find it there. Raise AlreadyEnded if the task has ended without it."""
    steps = await request.gateway.calls.histories.run(lambda: list(task.steps()))
    items = (request.item_id(task, 0), _first_item(request))
    known = [step for step in steps if step.metadata.get("item_id") in items]
    if known:
        if known[-1].text != request.turn.prompt:
            raise Problem(422, "conflict", "the messageId was used for another message", "use another one")
        return AcceptedTurn(task, ResponseStart(known[-1].seq))
    busy = {"if_busy": request.if_busy} if request.if_busy else {}
    return await send_to_task(replace(request, message_options=request.message_options | busy), task)


async def _check(request: MessageRequest, task: Task) -> None:
    if request.check is not None:
        await request.gateway.calls.histories.run(request.check, task)


def _first_item(request: TurnRequest) -> str:
    return f"{_FIRST}{request.repetition.digest[:32]}"


def _text(message: Message) -> str:
    """Return the text of a message; data are JSON in it."""
    texts = list[str]()
    for part in message.parts:
        match part.WhichOneof("content"):
            case "text":
                texts.append(part.text)
            case "data":
                texts.append(canonical_json(MessageToDict(part.data)))
            case "url":
                texts.append(part.url)
            case _:
                raise invalid(
                    "parts: bytes of files are not supported", "upload files with the REST API, or send links"
                )
    return "\n\n".join(texts)


def _answers(message: Message) -> Iterator[Answer]:
    """Yield the results, decisions and resolutions of the data parts that name a call."""
    for part in message.parts:
        data = MessageToDict(part.data) if part.HasField("data") else None
        if isinstance(data, dict) and str(data.get("callId")).startswith("tc_"):  # others are the application's data
            yield _answer(data["callId"], data)


def _answer(call_id: str, data: dict[str, Any]) -> Answer:
    args = data.get("args")
    if args is not None and not isinstance(args, dict):
        raise invalid("args of a decision must be an object")
    match data:
        case {"approved": bool(approved)}:
            return Decided(call_id, approved, str(data.get("reason") or ""), args)
        case {"happened": bool(happened)}:
            return Resolved(call_id, happened, data.get("result"))
        case {"error": str(error)}:
            return Returned(call_id, f"error: {error}")
        case {"result": str(text)}:
            return Returned(call_id, text)
        case {"result": result}:
            return Returned(call_id, canonical_json(result))
        case _:
            raise invalid("data with a callId must have approved or happened, true or false, or a result or an error")
